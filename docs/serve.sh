#!/bin/sh
# What the container starts: the page over the store in the current folder, the README's example where there is none yet.
# The token is made anew at each start unless SWEEPDB_TOKEN_FILE names one.
set -eu
export SWEEPDB_STORE="${SWEEPDB_STORE:-sqlite:///sweepdb.sqlite}"
if [ "$SWEEPDB_STORE" = sqlite:///sweepdb.sqlite ] && [ ! -e sweepdb.sqlite ]; then sh "$(dirname "$0")/demo.sh"; fi
token="${SWEEPDB_TOKEN_FILE:-}"
if [ -z "$token" ]; then
    token="$(mktemp)"
    python3 -c "import secrets; print(secrets.token_hex(16))" >"$token"
    echo "open http://127.0.0.1:8787/?token=$(cat "$token")"
fi
exec sweepdb serve --host 0.0.0.0 --token-file "$token" "$@"
