#!/usr/bin/env bash
# decode: SGLang 0.5.23 (image lmsysorg/sglang:v0.5.23)
# Row a3c76844:6, 6 requests a replica and stage. Instances: 2.
# Devices of one instance: tensor 1 x attention replicas 8 x pipeline 1 = 8.
set -euo pipefail
exec python3 -m sglang.launch_server \
  --model-path Qwen/Qwen3-30B-A3B \
  --port "${PORT:-8200}" \
  --tp-size 8 \
  --pp-size 1 \
  --ep-size 8 \
  --attn-dp-size 8 \
  --max-running-requests 48 \
  --chunked-prefill-size 32768 \
  --context-length 2560 \
  --mem-fraction-static 0.08 \
  --disable-radix-cache \
  --cuda-graph-max-bs-decode 6 \
  --disaggregation-mode decode \
  --disaggregation-transfer-backend nixl
