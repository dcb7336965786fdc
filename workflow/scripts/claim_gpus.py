"""Run a command on free GPUs of this machine: wait for them, reserve them until it ends, and hide
all others from it.

free GPUs, among those of CUDA_VISIBLE_DEVICES where it is set ->
CUDA_VISIBLE_DEVICES of the command
"""

import argparse
import os
import random
import signal
import sys
import time
from pathlib import Path

from bimix.errors import InputError, run
from bimix.training.devices import allowed_devices, busy_devices, hold_gpus


def main(argv: list[str] | None = None) -> int:
    options = parse(argv)
    allowed = allowed_devices(os.environ.get("CUDA_VISIBLE_DEVICES"))
    whole = [device for device in allowed if not device.startswith("MIG-")]
    if options.count > 1 and len(whole) < min(options.count, len(allowed)):
        raise InputError(
            f"{options.count} GPUs are requested, but of GPUs that MIG has cut a process sees one instance alone; set"
            f" `gpus: 1` in the model's launch."
        )
    allowed = allowed if options.count == 1 else whole
    if len(allowed) < options.count:
        raise InputError(f"{options.count} GPUs are requested, {len(allowed)} can be seen here ({', '.join(allowed)}).")
    said = False
    ignored = signal.signal(
        signal.SIGTERM, signal.SIG_DFL
    )  # launch_training.sh ignores it; while this waits, it ends it
    while True:
        busy = busy_devices()
        claimed = hold_gpus(options.locks, [device for device in allowed if device not in busy], options.count)
        if claimed is not None:
            break
        if not said:
            print(f"Waiting until {options.count} of {len(allowed)} GPUs are free.", file=sys.stderr, flush=True)
        said = True
        time.sleep(random.uniform(0.5, 1.5) * options.every)
    locks, devices = claimed
    # standard input is the one open file that every launcher hands on to the processes that compute
    os.dup2(locks, 0)
    signal.signal(signal.SIGTERM, ignored)
    os.environ["CUDA_VISIBLE_DEVICES"] = ",".join(devices)
    os.execvp(options.command[0], options.command)


def parse(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, required=True, help="GPUs the command takes")
    parser.add_argument("--locks", type=Path, required=True, help="file of the locks, the same for all on this machine")
    parser.add_argument("--every", type=float, required=True, help="seconds between two looks for free GPUs")
    parser.add_argument("command", nargs="+", help="after --")
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(run(main))
