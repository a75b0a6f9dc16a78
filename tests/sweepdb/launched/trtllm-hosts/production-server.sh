#!/usr/bin/env bash
# server: TensorRT-LLM 1.3.0rc25 (image nvcr.io/nvidia/tensorrt-llm/release:1.3.0rc25)
# To serve with: the plan, formats and token budget of row 90e40b4b:6, without its limits. Instances: 1.
# Devices of one instance: tensor 16 x attention replicas 1 x pipeline 1 = 16.
# Memory: free_gpu_memory_fraction 0.9; the row alone needs 0.01.
# Length: max_seq_len 3072: the workload's longest request has 2,500 tokens; longer ones are turned away.
# Longest that would fit: 40,960 tokens, the model's own longest.
# Requests at once: the engine's own number; the row has max_batch_size 6.
# Prefix cache: on; the row was predicted without.
set -euo pipefail
cd "$(dirname "$0")"
# Run it once: in an allocation of 2 hosts of Slurm, or with LAUNCHER=mpirun HOSTS=HOST0:8,HOST1:8.
# The folder must be at one place on all hosts; SRUN_ARGS are more arguments of srun, such as a container's.
case "${LAUNCHER:-srun}" in
srun) launcher=(srun -N 2 --ntasks 16 --ntasks-per-node 8 --mpi=pmix --gres=gpu:8 ${SRUN_ARGS:-}) ;;
mpirun) launcher=(mpirun -n 16 -H "${HOSTS:?HOST0:8,HOST1:8}" --allow-run-as-root) ;;
*) echo "LAUNCHER=$LAUNCHER is not one of srun, mpirun" >&2; exit 2 ;;
esac
exec "${launcher[@]}" trtllm-llmapi-launch trtllm-serve Qwen/Qwen3-30B-A3B \
  --port "${PORT:-8000}" \
  --extra_llm_api_options production-server-engine.yaml
