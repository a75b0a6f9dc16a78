#!/usr/bin/env bash
# server: vLLM 0.33.0 (image vllm/vllm-openai:v0.33.0)
# Row 3a72cd9d:238, 238 requests a replica and stage. Instances: 1.
# Devices of one instance: tensor 1 x pipeline 1 x data 1 = 1.
set -euo pipefail
exec vllm serve Qwen/Qwen3-0.6B \
  --port "${PORT:-8000}" \
  --tensor-parallel-size 1 \
  --pipeline-parallel-size 1 \
  --data-parallel-size 1 \
  --max-num-seqs 238 \
  --max-num-batched-tokens 4096 \
  --max-model-len 5056 \
  --gpu-memory-utilization 0.92 \
  --quantization fp8 \
  --disable-prefix-caching
