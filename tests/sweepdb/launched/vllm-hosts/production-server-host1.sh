#!/usr/bin/env bash
# server, host 1 of 2: vLLM 0.32.0 (image vllm/vllm-openai:v0.32.0)
# To serve with: the plan, formats and token budget of row a396e5ab:6, without its limits. Instances: 1.
# Devices of one instance: tensor 4 x pipeline 1 x data 4 = 16.
# Memory: --gpu-memory-utilization 0.9; the row alone needs 0.04.
# Length: --max-model-len 3072: the workload's longest request has 2,500 tokens; longer ones are turned away.
# Longest that would fit: 40,960 tokens, the model's own longest.
# Requests at once: the engine's own number; the row has --max-num-seqs 6.
# Prefix cache: on; the row was predicted without.
set -euo pipefail
: "${MASTER_ADDR:?the address of host 0}"
exec vllm serve Qwen/Qwen3-30B-A3B \
  --port "${PORT:-8000}" \
  --tensor-parallel-size 4 \
  --pipeline-parallel-size 1 \
  --data-parallel-size 4 \
  --enable-expert-parallel \
  --max-num-batched-tokens 4096 \
  --gpu-memory-utilization 0.9 \
  --max-model-len 3072 \
  --data-parallel-size-local 2 \
  --data-parallel-start-rank 2 \
  --data-parallel-address "${MASTER_ADDR}" \
  --data-parallel-rpc-port 13345 \
  --headless
