#!/usr/bin/env bash
# prefill: TensorRT-LLM 1.3.0rc25 (image nvcr.io/nvidia/tensorrt-llm/release:1.3.0rc25)
# To serve with: the plan, formats and token budget of row 1ee2f971:6, without its limits. Instances: 3.
# Devices of one instance: tensor 4 x attention replicas 1 x pipeline 1 = 4.
# Memory: free_gpu_memory_fraction 0.9; the row alone needs 0.01.
# Length: max_seq_len 3072: the workload's longest request has 2,500 tokens; longer ones are turned away.
# Longest that would fit: 40,960 tokens, the model's own longest.
# Requests at once: the engine's own number; the row has max_batch_size 6.
# Prefix cache: on; the row was predicted without.
set -euo pipefail
cd "$(dirname "$0")"
exec trtllm-serve Qwen/Qwen3-30B-A3B \
  --port "${PORT:-8100}" \
  --extra_llm_api_options production-prefill-engine.yaml
