#!/usr/bin/env bash
# server: vLLM 0.33.0 (image vllm/vllm-openai:v0.33.0)
# Row 279cec5e:6, 6 requests a replica and stage. Instances: 1.
# Devices of one instance: tensor 2 x pipeline 1 x data 4 = 8.
set -euo pipefail
exec vllm serve Qwen/Qwen3-30B-A3B \
  --port "${PORT:-8000}" \
  --tensor-parallel-size 2 \
  --pipeline-parallel-size 1 \
  --data-parallel-size 4 \
  --enable-expert-parallel \
  --max-num-seqs 6 \
  --max-num-batched-tokens 4096 \
  --max-model-len 2560 \
  --gpu-memory-utilization 0.07 \
  --disable-prefix-caching
