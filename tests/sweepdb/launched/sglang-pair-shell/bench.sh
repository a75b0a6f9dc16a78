#!/usr/bin/env bash
# Measures SGLang as 845c6606:6 and eada2011:6 predicts it.
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
  --num-prompts 960 \
  --max-concurrency 96 \
  --percentile-metrics ttft,tpot,itl,e2el \
  --metric-percentiles 50,90,99 \
  --ignore-eos --save-result --save-detailed --result-dir "$RESULTS" --result-filename measured.json
echo "next: sweepdb measurements import $RESULTS/measured.json --set device=h200_sxm --set engine=sglang --set engine_version=0.5.23 --set model=Qwen/Qwen3-30B-A3B --set precision=bf16 --set mode=disaggregated --set prefill_instances=3 --set prefill_tp=4 --set prefill_pp=1 --set prefill_dp=1 --set prefill_ep=4 --set prefill_moe_tp=1 --set decode_instances=2 --set decode_tp=1 --set decode_pp=1 --set decode_dp=8 --set decode_ep=8 --set decode_moe_tp=1"
echo "      sweepdb validate"

