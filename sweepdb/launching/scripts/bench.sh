#!/usr/bin/env bash
# Measures @engine@ as @probes@ predicts it.
# CLIENT names who asks: vllm (vllm bench serve), guidellm (0.8 or newer) or aiperf. USERS are those at once,
# REQUESTS how many they ask (PER_USER: each), BASE_URL who answers, TOKENIZER a folder of one's own. RATE, in
# requests/s, sends them at random moments in place of USERS at once.
@bins@set -euo pipefail
HERE="$(cd "$(dirname "$0")" && pwd)"
BASE_URL="${BASE_URL:-http://127.0.0.1:8000}"
TOKENIZER=@tokenizer@
USERS="${USERS:-@users@}"
REQUESTS="${REQUESTS:-$((USERS * ${PER_USER:-@each@}))}"
RATE="${RATE:-}"
LOAD="${RATE:+rate-$RATE}" LOAD="${LOAD:-$USERS}"
RESULTS="$HERE/results"
mkdir -p "$RESULTS"
case "${CLIENT:-vllm}" in
vllm)
  load=(--max-concurrency "$USERS")
  if [ -n "$RATE" ]; then load=(--request-rate "$RATE"); fi
  @vllm@
  ;;
guidellm)
  profile="kind=concurrent,streams=$USERS"
  if [ -n "$RATE" ]; then profile="kind=poisson,rate=$RATE"; fi
  @guidellm@
  ;;
aiperf)
  load=(--concurrency "$USERS")
  if [ -n "$RATE" ]; then load=(--request-rate "$RATE"); fi
  @aiperf@
  ;;
*)
  echo "CLIENT=$CLIENT is not one of @clients@" >&2
  exit 2
  ;;
esac
echo "next: sweepdb measurements import $HERE"
echo "      sweepdb validate"
