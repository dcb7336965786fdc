"""Start the processes of a training as `accelerate launch` does, and exit with their status. Their
own messages stay the last output.

flags of accelerate launch, script, its flags -> the exit status of the first process that failed
--alone, script, its flags -> the exit status of its one process
"""

import logging
import os
import signal
import subprocess
import sys

# It lists processes that failed, and a box with their exit codes follows: both after the sentence
# of the process itself.
LAUNCHER = "torch.distributed.elastic.multiprocessing.api"
HINTS = {
    "SIGKILL": ": the machine's memory may have run out",
    "SIGABRT": ": where NCCL speaks of a timeout above, another process of the run has ended or hangs",
}


def main() -> int:
    os.environ["BIMIX_LAUNCHER"] = str(os.getpid())  # whose end is that of the processes
    if sys.argv[1] == "--alone":
        return alone(sys.argv[2:])
    return together()


def alone(command: list[str]) -> int:
    """Start one process without Accelerate's launcher, whose import takes as long as torch's."""
    training = subprocess.Popen([sys.executable, *command])
    signal.signal(signal.SIGINT, lambda number, frame: training.send_signal(number))
    return end(training.wait())


def together() -> int:
    """Start several processes; the arguments are the command line's flags."""
    from accelerate.commands import launch
    from torch.distributed.elastic.multiprocessing.api import SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError

    logging.getLogger(LAUNCHER).setLevel(logging.CRITICAL)
    try:
        launch.main()
    except subprocess.CalledProcessError as error:
        return end(error.returncode)
    except ChildFailedError as error:
        return end(error.get_first_failure()[1].exitcode)
    except SignalException as error:
        return 128 + error.sigval
    return 0


def end(status: int) -> int:
    """The exit status of a shell for this status of a process, negative after a signal."""
    if status >= 0:
        return status
    name = signal.Signals(-status).name
    print(
        f"launch_processes.py: error: a process of the training was ended by {name}{HINTS.get(name, '')}.",
        file=sys.stderr,
    )
    return 128 - status


if __name__ == "__main__":
    sys.exit(main())
