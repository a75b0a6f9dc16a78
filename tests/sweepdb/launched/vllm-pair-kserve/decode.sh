#!/usr/bin/env bash
# decode: vLLM 0.33.0 (image vllm/vllm-openai:v0.33.0)
# Row a3c76844:6, 6 requests a replica and stage. Instances: 2.
# Devices of one instance: tensor 1 x pipeline 1 x data 8 = 8.
set -euo pipefail
export VLLM_NIXL_SIDE_CHANNEL_HOST="${VLLM_NIXL_SIDE_CHANNEL_HOST:-$(hostname -i)}"
export VLLM_NIXL_SIDE_CHANNEL_PORT="${VLLM_NIXL_SIDE_CHANNEL_PORT:-5600}"
exec vllm serve Qwen/Qwen3-30B-A3B \
  --port "${PORT:-8200}" \
  --tensor-parallel-size 1 \
  --pipeline-parallel-size 1 \
  --data-parallel-size 8 \
  --enable-expert-parallel \
  --max-num-seqs 6 \
  --max-num-batched-tokens 4096 \
  --max-model-len 2560 \
  --gpu-memory-utilization 0.08 \
  --disable-prefix-caching \
  --kv-transfer-config '{"kv_connector": "NixlConnector", "kv_role": "kv_both"}'
