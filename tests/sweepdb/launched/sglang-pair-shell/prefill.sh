#!/usr/bin/env bash
# prefill: SGLang 0.5.23 (image lmsysorg/sglang:v0.5.23)
# Row 1ee2f971:6, 6 requests a replica and stage. Instances: 3.
# Devices of one instance: tensor 4 x attention replicas 1 x pipeline 1 = 4.
set -euo pipefail
exec python3 -m sglang.launch_server \
  --model-path Qwen/Qwen3-30B-A3B \
  --port "${PORT:-8100}" \
  --tp-size 4 \
  --pp-size 1 \
  --ep-size 4 \
  --max-running-requests 6 \
  --chunked-prefill-size 4096 \
  --context-length 2560 \
  --mem-fraction-static 0.11 \
  --disable-radix-cache \
  --cuda-graph-max-bs-decode 6 \
  --disaggregation-mode prefill \
  --disaggregation-transfer-backend nixl \
  --disaggregation-bootstrap-port "${BOOTSTRAP:-8998}"
