#!/bin/sh
# The README's example: evaluate once, ask twice. Run by `make demo` with the virtual environment on PATH.
set -eu

say() {
    printf '\n$ %s\n' "$*"
    "$@"
}

say sweepdb evaluate Qwen/Qwen3-32B-FP8 --device h200_sxm --total-devices 8 --input-length 3500 --output-length 1500
say sweepdb query best --ttft-limit 2000 --tpot-limit 50 --confidence 0.8 --tuned-servers
say sweepdb query best --ttft-limit 1000 --tpot-limit 20 --confidence 0.8 --tuned-servers

# Where `make demo` runs it; a container serves the page by itself.
if [ -x .venv/bin/sweepdb ]; then
    printf '\nTo move the limits in a browser: .venv/bin/sweepdb serve --open --store %s\n' "$SWEEPDB_STORE"
fi
