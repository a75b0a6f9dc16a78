#!/usr/bin/env bash
# Write the addresses of the instances in place of the names in this file.
set -euo pipefail
exec vllm-router \
  --vllm-pd-disaggregation \
  --prefill http://PREFILL_0:8100 \
  --prefill http://PREFILL_1:8100 \
  --prefill http://PREFILL_2:8100 \
  --decode http://DECODE_0:8200 \
  --decode http://DECODE_1:8200 \
  --policy round_robin \
  --host 0.0.0.0 \
  --port 8000
