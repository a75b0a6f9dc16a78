#!/usr/bin/env bash
# decode: vLLM 0.33.0 (image vllm/vllm-openai:v0.33.0)
# To serve with: the plan, formats and token budget of row a3c76844:6, without its limits. Instances: 2.
# Devices of one instance: tensor 1 x pipeline 1 x data 8 = 8.
# Memory: --gpu-memory-utilization 0.9; the row alone needs 0.08.
# Length: --max-model-len 3072: the workload's longest request has 2,500 tokens; longer ones are turned away.
# Longest that would fit: 40,960 tokens, the model's own longest.
# Requests at once: the engine's own number; the row has --max-num-seqs 6.
# Prefix cache: on; the row was predicted without.
set -euo pipefail
export VLLM_NIXL_SIDE_CHANNEL_HOST="${VLLM_NIXL_SIDE_CHANNEL_HOST:-$(hostname -i)}"
export VLLM_NIXL_SIDE_CHANNEL_PORT="${VLLM_NIXL_SIDE_CHANNEL_PORT:-5600}"
exec vllm serve Qwen/Qwen3-30B-A3B \
  --port "${PORT:-8200}" \
  --tensor-parallel-size 1 \
  --pipeline-parallel-size 1 \
  --data-parallel-size 8 \
  --enable-expert-parallel \
  --max-num-batched-tokens 4096 \
  --kv-transfer-config '{"kv_connector": "NixlConnector", "kv_role": "kv_both"}' \
  --gpu-memory-utilization 0.9 \
  --max-model-len 3072
