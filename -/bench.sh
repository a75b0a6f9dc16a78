#!/usr/bin/env bash
# Measures vLLM as 3a72cd9d:238 predicts it.
# CLIENT names who asks: vllm (vllm bench serve), guidellm (0.8 or newer) or aiperf. USERS are those at once,
# REQUESTS how many they ask (PER_USER: each), BASE_URL who answers, TOKENIZER a folder of one's own. RATE, in
# requests/s, sends them at random moments in place of USERS at once.
set -euo pipefail
HERE="$(cd "$(dirname "$0")" && pwd)"
BASE_URL="${BASE_URL:-http://127.0.0.1:8000}"
TOKENIZER="${TOKENIZER:-Qwen/Qwen3-0.6B}"
USERS="${USERS:-238}"
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
    --model Qwen/Qwen3-0.6B \
    --tokenizer "${TOKENIZER}" \
    --dataset-name random \
    --random-input-len 3325 \
    --random-output-len 1425 \
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
    --data kind=synthetic_text,prompt_tokens=3325,prompt_tokens_min=3150,prompt_tokens_max=3501,output_tokens=1425,output_tokens_min=1350,output_tokens_max=1501 \
    --output "kind=json,path=${RESULTS}/guidellm-$LOAD.json" \
    --disable-progress
  ;;
aiperf)
  load=(--concurrency "$USERS")
  if [ -n "$RATE" ]; then load=(--request-rate "$RATE"); fi
  aiperf profile \
    --url "${BASE_URL}" \
    --model Qwen/Qwen3-0.6B \
    --tokenizer "${TOKENIZER}" \
    --endpoint-type completions \
    --streaming \
    --isl 3325 \
    --isl-stddev 101 \
    --osl 1425 \
    --osl-stddev 43.3 \
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
