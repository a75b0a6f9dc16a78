#!/usr/bin/env bash
# Measures vLLM as 1ee2f971:6 and a3c76844:6 predicts it.
# CLIENT names who asks: vllm (vllm bench serve), guidellm (0.8 or newer) or aiperf. USERS are those at once,
# REQUESTS how many they ask (PER_USER: each), BASE_URL who answers, TOKENIZER a folder of one's own. RATE, in
# requests/s, sends them at random moments in place of USERS at once.
set -euo pipefail
HERE="$(cd "$(dirname "$0")" && pwd)"
BASE_URL="${BASE_URL:-http://127.0.0.1:8000}"
TOKENIZER="${TOKENIZER:-Qwen/Qwen3-30B-A3B}"
USERS="${USERS:-103}"
REQUESTS="${REQUESTS:-$((USERS * ${PER_USER:-10}))}"
RATE="${RATE:-}"
LOAD="${RATE:+rate-$RATE}" LOAD="${LOAD:-$USERS}"
RESULTS="$HERE/results"
mkdir -p "$RESULTS"
case "${CLIENT:-vllm}" in
vllm)
  load=(--max-concurrency "$USERS")
  if [ -n "$RATE" ]; then load=(--request-rate "$RATE"); fi
  vllm bench serve \
    --base-url "${BASE_URL}" \
    --backend openai \
    --model Qwen/Qwen3-30B-A3B \
    --tokenizer "${TOKENIZER}" \
    --dataset-name random \
    --random-input-len 1900 \
    --random-output-len 475 \
    --random-range-ratio 0.05263 \
    --num-prompts "${REQUESTS}" \
    "${load[@]}" \
    --percentile-metrics ttft,tpot,itl,e2el \
    --metric-percentiles 50,90,99 \
    --ignore-eos \
    --save-result \
    --save-detailed \
    --result-dir "${RESULTS}" \
    --result-filename "vllm-${LOAD}.json"
  ;;
guidellm)
  profile="kind=concurrent,streams=$USERS"
  if [ -n "$RATE" ]; then profile="kind=poisson,rate=$RATE"; fi
  guidellm run \
    --backend "kind=openai_http,target=${BASE_URL}" \
    --profile "${profile}" \
    --constraint "kind=max_requests,count=${REQUESTS}" \
    --tokenizer "kind=hf_auto,model=${TOKENIZER}" \
    --data kind=synthetic_text,prompt_tokens=1900,prompt_tokens_min=1800,prompt_tokens_max=2001,output_tokens=475,output_tokens_min=450,output_tokens_max=501 \
    --output "kind=json,path=${RESULTS}/guidellm-$LOAD.json" \
    --disable-progress
  ;;
aiperf)
  load=(--concurrency "$USERS")
  if [ -n "$RATE" ]; then load=(--request-rate "$RATE"); fi
  aiperf profile \
    --url "${BASE_URL}" \
    --model Qwen/Qwen3-30B-A3B \
    --tokenizer "${TOKENIZER}" \
    --endpoint-type completions \
    --streaming \
    --isl 1900 \
    --isl-stddev 57.7 \
    --osl 475 \
    --osl-stddev 14.4 \
    --extra-inputs ignore_eos:true \
    "${load[@]}" \
    --request-count "${REQUESTS}" \
    --output-artifact-dir "${RESULTS}/aiperf-$LOAD" \
    --ui none
  ;;
*)
  echo "CLIENT=$CLIENT is not one of vllm, guidellm, aiperf" >&2
  exit 2
  ;;
esac
echo "next: sweepdb measurements import $HERE"
echo "      sweepdb validate"
