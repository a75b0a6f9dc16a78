#!/usr/bin/env bash
set -euo pipefail
mkdir -p @folder@ && cd @folder@
@written@chmod +x ./*.sh
./@start@ > server.log 2>&1 &
SERVER=$!
trap 'kill "$SERVER" 2> /dev/null || true' EXIT
until curl -fsS "${BASE_URL:-http://127.0.0.1:8000}/health" > /dev/null 2>&1; do
  kill -0 "$SERVER" 2> /dev/null || { tail -n 20 server.log >&2; exit 1; }
  sleep 2
done
./@ladder@
