#!/usr/bin/env bash
# Start a training script by Accelerate: one process per GPU on each node, on a CPU one process.
#   launch_training.sh GPUS NODES THREADS SCRIPT FLAGS...
set -euo pipefail
gpus=$1 nodes=$2 threads=$3
shift 3

local_processes=$((gpus > 1 ? gpus : 1))
processes=$((local_processes * nodes))
export OMP_NUM_THREADS=$((threads / local_processes > 0 ? threads / local_processes : 1))
launch=(accelerate launch)
meeting=(--main_process_port 0)
if [ "$nodes" -gt 1 ]; then
    # one launcher on each node
    launch=(srun --nodes "$nodes" --ntasks "$nodes" --ntasks-per-node 1
        bash -c 'exec accelerate launch --machine_rank "$SLURM_NODEID" "$@"' launch)
    meeting=(--main_process_ip "$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)"
        --main_process_port $((20000 + SLURM_JOB_ID % 20000)))
fi
cpu=()
[ "$gpus" -gt 0 ] || cpu=(--cpu)
# Accelerate takes one of the two only; to it, processes on CPUs are "multi_gpu" as well
kind=("${cpu[@]}")
[ "$processes" -le 1 ] || kind=(--multi_gpu)
# exec: signals meant for the training reach it
exec "${launch[@]}" "${meeting[@]}" "${kind[@]}" \
    --num_processes "$processes" \
    --num_machines "$nodes" \
    --mixed_precision no \
    --dynamo_backend no \
    "$@" \
    "${cpu[@]}" \
    --processes "$processes"
