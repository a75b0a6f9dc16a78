#!/bin/sh
# The README's example: evaluate once, ask twice. Run by `make demo` with the virtual environment on PATH.
set -eu

say() {
    printf '\n$ %s\n' "$*"
    "$@"
}

say sweepdb evaluate Qwen/Qwen3-32B --device TEST_DEVICE --num-devices 8 --input-length 3500 --output-length 1500 --compile
say sweepdb query best --tpot-limits 50
say sweepdb query best --ttft-limits 2000 --tpot-limits 30
