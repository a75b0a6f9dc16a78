#!/usr/bin/env bash
# Measures a started server at each of these numbers of users at once; every result is worth an import by itself.
set -euo pipefail
HERE="$(cd "$(dirname "$0")" && pwd)"
for USERS in ${LADDER:-@users@}; do
  USERS="$USERS" "$HERE/bench.sh"
done
