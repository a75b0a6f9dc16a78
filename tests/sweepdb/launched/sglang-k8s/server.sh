#!/usr/bin/env bash
# server: SGLang 0.5.23 (image lmsysorg/sglang:v0.5.23)
# Row 279cec5e:6, 6 requests a replica and stage. Instances: 1.
# Devices of one instance: tensor 2 x attention replicas 4 x pipeline 1 = 8.
set -euo pipefail
exec python3 -m sglang.launch_server \
  --model-path Qwen/Qwen3-30B-A3B \
  --port "${PORT:-8000}" \
  --tp-size 8 \
  --pp-size 1 \
  --ep-size 8 \
  --attn-dp-size 4 \
  --max-running-requests 24 \
  --chunked-prefill-size 16384 \
  --context-length 2560 \
  --mem-fraction-static 0.07 \
  --disable-radix-cache \
  --cuda-graph-max-bs-decode 6
