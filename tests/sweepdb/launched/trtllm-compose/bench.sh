#!/usr/bin/env bash
# Measures TensorRT-LLM as 33ba9c20:6 predicts it.
set -euo pipefail
BASE_URL="${BASE_URL:-http://127.0.0.1:8000}"
RESULTS="${RESULTS:-$(dirname "$0")/results}"
mkdir -p "$RESULTS"
vllm bench serve --base-url "$BASE_URL" \
  --backend openai \
  --model Qwen/Qwen3-30B-A3B \
  --dataset-name random \
  --random-input-len 1990 \
  --random-output-len 498 \
  --random-range-ratio 0.005025 \
  --num-prompts 60 \
  --max-concurrency 6 \
  --percentile-metrics ttft,tpot,itl,e2el \
  --metric-percentiles 50,90,99 \
  --ignore-eos --save-result --save-detailed --result-dir "$RESULTS" --result-filename measured.json
echo "next: sweepdb measurements import $RESULTS/measured.json --set device=h200_sxm --set engine=trtllm --set engine_version=1.3.0rc23 --set model=Qwen/Qwen3-30B-A3B --set precision=bf16 --set mode=aggregated --set num_devices=4 --set tp=4 --set pp=1 --set dp=1 --set ep=4 --set moe_tp=1"
echo "      sweepdb validate"

