#!/usr/bin/env bash
# prefill: vLLM 0.33.0 (image vllm/vllm-openai:v0.33.0)
# To serve with: the plan, formats and token budget of row 1ee2f971:6, without its limits. Instances: 3.
# Devices of one instance: tensor 4 x pipeline 1 x data 1 = 4.
# Memory: --gpu-memory-utilization 0.9; the row alone needs 0.11.
# Length: --max-model-len 3072: the workload's longest request has 2,500 tokens; longer ones are turned away.
# Longest that would fit: 40,960 tokens, the model's own longest.
# Requests at once: the engine's own number; the row has --max-num-seqs 6.
# Prefix cache: on; the row was predicted without.
set -euo pipefail
export VLLM_NIXL_SIDE_CHANNEL_HOST="${VLLM_NIXL_SIDE_CHANNEL_HOST:-$(hostname -i)}"
export VLLM_NIXL_SIDE_CHANNEL_PORT="${VLLM_NIXL_SIDE_CHANNEL_PORT:-5600}"
exec vllm serve Qwen/Qwen3-30B-A3B \
  --port "${PORT:-8100}" \
  --tensor-parallel-size 4 \
  --pipeline-parallel-size 1 \
  --data-parallel-size 1 \
  --enable-expert-parallel \
  --max-num-batched-tokens 4096 \
  --kv-transfer-config '{"kv_connector": "NixlConnector", "kv_role": "kv_both"}' \
  --gpu-memory-utilization 0.9 \
  --max-model-len 3072
