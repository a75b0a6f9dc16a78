#!/usr/bin/env bash
# server: vLLM 0.33.0 (image vllm/vllm-openai:v0.33.0)
# To serve with: the plan, formats and token budget of row 279cec5e:6, without its limits. Instances: 1.
# Devices of one instance: tensor 2 x pipeline 1 x data 4 = 8.
# Memory: --gpu-memory-utilization 0.9; the row alone needs 0.07.
# Length: --max-model-len 3072: the workload's longest request has 2,500 tokens; longer ones are turned away.
# Longest that would fit: 40,960 tokens, the model's own longest.
# Requests at once: the engine's own number; the row has --max-num-seqs 6.
# Prefix cache: on; the row was predicted without.
set -euo pipefail
exec vllm serve Qwen/Qwen3-30B-A3B \
  --port "${PORT:-8000}" \
  --tensor-parallel-size 2 \
  --pipeline-parallel-size 1 \
  --data-parallel-size 4 \
  --enable-expert-parallel \
  --max-num-batched-tokens 4096 \
  --gpu-memory-utilization 0.9 \
  --max-model-len 3072
