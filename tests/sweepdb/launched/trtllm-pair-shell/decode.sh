#!/usr/bin/env bash
# decode: TensorRT-LLM 1.3.0rc25 (image nvcr.io/nvidia/tensorrt-llm/release:1.3.0rc25)
# Row a3c76844:6, 6 requests a replica and stage. Instances: 2.
# Devices of one instance: tensor 1 x attention replicas 8 x pipeline 1 = 8.
set -euo pipefail
cd "$(dirname "$0")"
exec trtllm-serve Qwen/Qwen3-30B-A3B \
  --port "${PORT:-8200}" \
  --extra_llm_api_options decode-engine.yaml
