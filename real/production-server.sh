#!/usr/bin/env bash
# server: vLLM 0.33.0 (image vllm/vllm-openai:v0.33.0)
# To serve with: the plan, formats and token budget of row 6cfbfdd4:76, without its limits. Instances: 1.
# Devices of one instance: tensor 2 x pipeline 1 x data 1 = 2.
set -euo pipefail
exec vllm serve Qwen/Qwen3-32B-FP8 \
  --port "${PORT:-8000}" \
  --tensor-parallel-size 2 \
  --pipeline-parallel-size 1 \
  --data-parallel-size 1 \
  --max-num-batched-tokens 4096 \
  --gpu-memory-utilization 0.9
