#!/usr/bin/env bash
# What this machine's GPU does, in calls of ten minutes at most; README.md beside this file.
#   gpu_day.sh OUT [STAGE...] [--case STAGE/NAME]... [--total-seconds N] [--archive FILE]
# PYTHON: the interpreter (python3). GPU_DAY_WHEELS: a folder of wheels of what it lacks. GPU_DAY_SIZE: full or toy.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
python=${PYTHON:-python3}
wheels=${GPU_DAY_WHEELS:-$here/wheels}
kept=${TMPDIR:-/tmp}/gpu_day # of this machine, not of the results: packages and compiled graphs
if compgen -G "$wheels/*.whl" >/dev/null; then
    site=$kept/site
    if [ ! -e "$site/complete" ]; then
        # the wheels as they are: what they need lies beside them or is on the machine, torch above all
        "$python" -m pip install --quiet --no-index --no-deps --find-links "$wheels" --upgrade --target "$site" "$wheels"/*.whl
        touch "$site/complete"
    fi
    export PYTHONPATH=$site${PYTHONPATH:+:$PYTHONPATH}
fi
# processes share what one of them has compiled; the allocator as in launch_training.sh
export TORCHINDUCTOR_CACHE_DIR=${TORCHINDUCTOR_CACHE_DIR:-$kept/inductor} TRITON_CACHE_DIR=${TRITON_CACHE_DIR:-$kept/triton}
if [ -z "${PYTORCH_CUDA_ALLOC_CONF+set}${PYTORCH_ALLOC_CONF+set}" ]; then
    export PYTORCH_ALLOC_CONF=expandable_segments:True
fi
exec "$python" "$here/gpu_day.py" "$@"
