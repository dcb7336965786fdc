#!/usr/bin/env bash
# Start a script by Accelerate: one process per GPU on each node, on a CPU one process.
#   launch_training.sh [--once] GPUS NODES THREADS RUNTIME LOG LOGS SCRIPT FLAGS...
# SCRIPT is one next to this file, by its name, or a path.
# GPUS of all nodes together, as schedulers count them; RUNTIME of the job in minutes, 0: without a limit. What is said on
# standard error goes to the file LOG and stays in the folder LOGS, a file for each attempt: Snakemake deletes the LOG of
# the attempt before. --once: one process on the first node, with all GPUs of that node, which starts others itself.
set -euo pipefail
once=
if [ "$1" = --once ]; then
    once=yes
    shift
fi
gpus=$1 nodes=$2 threads=$3 runtime=$4 log=$5 logs=$6
shift 6
scripts=$(dirname "$0")
[ ! -e "$scripts/$1" ] || set -- "$scripts/$1" "${@:2}"

mkdir -p "$(dirname "$log")" "$logs"
# Created only where it is not there: of attempts that begin at once each has a log of its own
attempt=1
while ! (set -o noclobber && : >"$logs/$attempt.log") 2>/dev/null; do
    [ -e "$logs/$attempt.log" ] || { echo "launch_training.sh: error: $logs cannot be written to" >&2 && exit 1; }
    attempt=$((attempt + 1))
done
kept=$logs/$attempt.log linked=$log.$attempt.partial
# renamed, so that LOG is always a whole link; a file system may refuse links
{ ln -f "$kept" "$linked" || ln -sfr "$kept" "$linked"; } 2>/dev/null && mv -f "$linked" "$log" || echo "See $kept" >"$log"
exec 2>>"$kept"
export TRAINING_LOG=$kept # progress.json names it
echo "Attempt $attempt, $(date '+%Y-%m-%d %H:%M:%S %z'), $(uname -n), job ${SLURM_JOB_ID:-none}, process $$" >&2
# What Accelerate would read of the caller's environment: settings left over from other work would reach the gradient
for name in ${!ACCELERATE_@} ${!DEEPSPEED_@} ${!FP8_@} ${!FSDP_@} ${!MEGATRON_LM_@} ${!PARALLELISM_CONFIG_@} ${!PMI_@} \
    ${!OMPI_COMM_WORLD_@} ${!MV2_COMM_WORLD_@} FORK_LAUNCHED RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE \
    GROUP_RANK NODE_RANK MASTER_ADDR MASTER_PORT; do
    [ -z "${!name+set}" ] || echo "$name of the environment is not heeded" >&2 # its value may be a secret
    unset "$name"
done

# SIGTERM is the training's own: it saves its state and ends, while this shell and the launcher wait for it. Of several
# processes the launcher would take it, and kill them 30 seconds later.
trap '' TERM
export PET_SIGNALS_TO_HANDLE=SIGINT,SIGHUP,SIGQUIT
# An interrupt of several processes goes by the launcher: seconds it leaves them to save tens of GB, not 30
export PET_SHUTDOWN_TIMEOUT=3600
local_gpus=$((gpus / nodes))
local_processes=$((local_gpus > 1 ? local_gpus : 1))
processes=$((local_processes * nodes))
[ -z "$once" ] || processes=1 nodes=1
export OMP_NUM_THREADS=$((threads / local_processes > 0 ? threads / local_processes : 1))
# TorchInductor would start up to 32 compilers for each process
export TORCHINDUCTOR_COMPILE_THREADS=${TORCHINDUCTOR_COMPILE_THREADS:-$OMP_NUM_THREADS}
# On the disk of the results: what one run has compiled no other run, node or attempt compiles again
export TORCHINDUCTOR_CACHE_DIR=${TORCHINDUCTOR_CACHE_DIR:-$PWD/.snakemake/torchinductor}
# Segments that grow: parts of several sizes leave no gaps. torch reads both names, the older one first.
if [ -z "${PYTORCH_CUDA_ALLOC_CONF+set}${PYTORCH_ALLOC_CONF+set}" ]; then
    export PYTORCH_ALLOC_CONF=expandable_segments:True
fi
# GPUs that nobody uses, not just so many: Snakemake counts them and a scheduler may not bind them
claim=()
if [ "$local_gpus" -gt 0 ]; then
    claim=(python "$scripts/claim_gpus.py" --count "$local_gpus" --locks /tmp/claimed_gpus --every 5 --)
fi
# what it starts has the last word: accelerate itself would end with its own traceback
launch=("${claim[@]}" python "$scripts/launch_processes.py")
meeting=(--main_process_port 0)
if [ "$nodes" -gt 1 ]; then
    # one launcher on each node; only a task of srun knows which nodes these are, where the executor has hidden it from us
    # a node that fails ends the others at once; where one is asked to stop, all are, and end when all have saved:
    # tasks of srun begin without our trap, and SLURM kills what is left of a step whose tasks have ended
    launch=(srun --kill-on-bad-exit=1 --nodes "$nodes" --ntasks "$nodes" --ntasks-per-node 1 --cpus-per-task "$threads"
        "${claim[@]}" bash -c 'trap "" TERM && exec python "$0" --machine_rank "$SLURM_NODEID" \
            --main_process_ip "$(scontrol show hostnames "$SLURM_STEP_NODELIST" | head -n 1)" "$@"' "$scripts/launch_processes.py")
    # below 32768, from where the system gives ports to whoever wants one
    meeting=(--main_process_port $((10000 + SLURM_JOB_ID % 20000)))
fi
cpu=()
[ "$gpus" -gt 0 ] || cpu=(--cpu)
# it stops by itself ten minutes before the job's end, or after a sixth of a short one
deadline=()
[ "$runtime" -eq 0 ] || deadline=(--max-seconds $((runtime > 12 ? runtime * 60 - 600 : runtime * 10)))
# exec: signals meant for the training reach it
if [ "$processes" -eq 1 ]; then
    exec "${launch[@]}" --alone "$@" "${cpu[@]}" "${deadline[@]}" --lock-seconds 300 --processes 1
fi
exec "${launch[@]}" --config_file "$scripts/accelerate.yaml" "${meeting[@]}" \
    --multi_gpu \
    --num_processes "$processes" \
    --num_machines "$nodes" \
    --mixed_precision no \
    --dynamo_backend no \
    "$@" \
    "${cpu[@]}" \
    "${deadline[@]}" \
    --lock-seconds 300 \
    --processes "$processes"
