#!/usr/bin/env bash
# Write the addresses of the instances in place of the names in this file.
set -euo pipefail
exec python3 -m sglang_router.launch_router --pd-disaggregation \
  --prefill http://PREFILL_0:8100 8998 \
  --prefill http://PREFILL_1:8100 8998 \
  --prefill http://PREFILL_2:8100 8998 \
  --decode http://DECODE_0:8200 \
  --decode http://DECODE_1:8200 \
  --port 8000
