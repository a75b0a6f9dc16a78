#!/usr/bin/env bash
# Write the addresses of the instances in place of the names in router.yaml.
set -euo pipefail
cd "$(dirname "$0")"
exec trtllm-serve disaggregated \
  -c router.yaml
