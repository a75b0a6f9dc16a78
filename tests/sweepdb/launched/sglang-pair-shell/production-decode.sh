#!/usr/bin/env bash
# decode: SGLang 0.5.23 (image lmsysorg/sglang:v0.5.23)
# To serve with: the plan, formats and token budget of row a3c76844:6, without its limits. Instances: 2.
# Devices of one instance: tensor 1 x attention replicas 8 x pipeline 1 = 8.
# Memory: the engine's own share, about 0.87; the row alone needs 0.08.
# Length: --context-length 3072: the workload's longest request has 2,500 tokens; longer ones are turned away.
# Longest that would fit: 40,960 tokens, the model's own longest.
# Requests at once: the engine's own number; the row has --max-running-requests 48.
# Prefix cache: on; the row was predicted without.
set -euo pipefail
exec python3 -m sglang.launch_server \
  --model-path Qwen/Qwen3-30B-A3B \
  --port "${PORT:-8200}" \
  --tp-size 8 \
  --pp-size 1 \
  --ep-size 8 \
  --attn-dp-size 8 \
  --chunked-prefill-size 32768 \
  --disaggregation-mode decode \
  --disaggregation-transfer-backend nixl \
  --context-length 3072
