#!/usr/bin/env bash
# server: vLLM 0.33.0 (image vllm/vllm-openai:v0.33.0)
# To serve with: the plan, formats and token budget of row 3a72cd9d:238, without its limits. Instances: 1.
# Devices of one instance: tensor 1 x pipeline 1 x data 1 = 1.
set -euo pipefail
exec vllm serve Qwen/Qwen3-0.6B \
  --port "${PORT:-8000}" \
  --tensor-parallel-size 1 \
  --pipeline-parallel-size 1 \
  --data-parallel-size 1 \
  --max-num-batched-tokens 4096 \
  --quantization fp8 \
  --gpu-memory-utilization 0.9
