#!/usr/bin/env bash
# Measures SGLang as 9c8deb6c:6 predicts it.
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
  --num-prompts 240 \
  --max-concurrency 24 \
  --percentile-metrics ttft,tpot,itl,e2el \
  --metric-percentiles 50,90,99 \
  --ignore-eos --save-result --save-detailed --result-dir "$RESULTS" --result-filename measured.json
echo "next: sweepdb measurements import $RESULTS/measured.json --set device=h200_sxm --set engine=sglang --set engine_version=0.5.23 --set model=Qwen/Qwen3-30B-A3B --set precision=bf16 --set mode=aggregated --set num_devices=8 --set tp=2 --set pp=1 --set dp=4 --set ep=8 --set moe_tp=1"
echo "      sweepdb validate"

