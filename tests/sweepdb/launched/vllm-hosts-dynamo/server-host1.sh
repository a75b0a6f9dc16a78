#!/usr/bin/env bash
# server, host 1 of 2: vLLM 0.28.0 (image vllm/vllm-openai:v0.28.0)
# Row a396e5ab:6, 6 requests a replica and stage. Instances: 1.
# Devices of one instance: tensor 4 x pipeline 1 x data 4 = 16.
set -euo pipefail
: "${MASTER_ADDR:?the address of host 0}"
exec vllm serve Qwen/Qwen3-30B-A3B \
  --port "${PORT:-8000}" \
  --tensor-parallel-size 4 \
  --pipeline-parallel-size 1 \
  --data-parallel-size 4 \
  --enable-expert-parallel \
  --max-num-seqs 6 \
  --max-num-batched-tokens 4096 \
  --max-model-len 2560 \
  --gpu-memory-utilization 0.04 \
  --no-enable-prefix-caching \
  --data-parallel-size-local 2 \
  --data-parallel-start-rank 2 \
  --data-parallel-address "${MASTER_ADDR}" \
  --data-parallel-rpc-port 13345 \
  --headless
