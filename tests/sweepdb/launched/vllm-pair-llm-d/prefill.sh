#!/usr/bin/env bash
# prefill: vLLM 0.33.0 (image vllm/vllm-openai:v0.33.0)
# Row 1ee2f971:6, 6 requests a replica and stage. Instances: 3.
# Devices of one instance: tensor 4 x pipeline 1 x data 1 = 4.
set -euo pipefail
export VLLM_NIXL_SIDE_CHANNEL_HOST="${VLLM_NIXL_SIDE_CHANNEL_HOST:-$(hostname -i)}"
export VLLM_NIXL_SIDE_CHANNEL_PORT="${VLLM_NIXL_SIDE_CHANNEL_PORT:-5600}"
exec vllm serve Qwen/Qwen3-30B-A3B \
  --port "${PORT:-8100}" \
  --tensor-parallel-size 4 \
  --pipeline-parallel-size 1 \
  --data-parallel-size 1 \
  --enable-expert-parallel \
  --max-num-seqs 6 \
  --max-num-batched-tokens 4096 \
  --max-model-len 2560 \
  --gpu-memory-utilization 0.11 \
  --disable-prefix-caching \
  --kv-transfer-config '{"kv_connector": "NixlConnector", "kv_role": "kv_both"}'
