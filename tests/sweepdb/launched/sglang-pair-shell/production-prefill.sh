#!/usr/bin/env bash
# prefill: SGLang 0.5.23 (image lmsysorg/sglang:v0.5.23)
# To serve with: the plan, formats and token budget of row 1ee2f971:6, without its limits. Instances: 3.
# Devices of one instance: tensor 4 x attention replicas 1 x pipeline 1 = 4.
# Memory: the engine's own share, about 0.87; the row alone needs 0.11.
# Length: --context-length 3072: the workload's longest request has 2,500 tokens; longer ones are turned away.
# Longest that would fit: 40,960 tokens, the model's own longest.
# Requests at once: the engine's own number; the row has --max-running-requests 6.
# Prefix cache: on; the row was predicted without.
set -euo pipefail
exec python3 -m sglang.launch_server \
  --model-path Qwen/Qwen3-30B-A3B \
  --port "${PORT:-8100}" \
  --tp-size 4 \
  --pp-size 1 \
  --ep-size 4 \
  --chunked-prefill-size 4096 \
  --disaggregation-mode prefill \
  --disaggregation-transfer-backend nixl \
  --context-length 3072 \
  --disaggregation-bootstrap-port "${BOOTSTRAP:-8998}"
