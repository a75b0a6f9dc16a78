#!/usr/bin/env bash
# prefill: TensorRT-LLM 1.3.0rc25 (image nvcr.io/nvidia/tensorrt-llm/release:1.3.0rc25)
# Row 1ee2f971:6, 6 requests a replica and stage. Instances: 3.
# Devices of one instance: tensor 4 x attention replicas 1 x pipeline 1 = 4.
set -euo pipefail
cd "$(dirname "$0")"
exec trtllm-serve Qwen/Qwen3-30B-A3B \
  --port "${PORT:-8100}" \
  --extra_llm_api_options prefill-engine.yaml
