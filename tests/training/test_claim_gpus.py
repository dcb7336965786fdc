"""Claiming GPUs by real processes; nvidia-smi is a file that the test writes."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from slurm_cluster import wait_until

from bimix.training.devices import share

SCRIPT = Path(__file__).parents[2] / "workflow/scripts/claim_gpus.py"
# A launcher that starts a training and does not hand on its open files, as
# Python's subprocess does not.
LAUNCHER = "import subprocess, sys; sys.exit(subprocess.call(sys.argv[1:]))"
TRAINING = """
import json, os, sys, time
with open(sys.argv[1], "w") as out:
    json.dump([os.getpid(), os.getppid(), os.environ["CUDA_VISIBLE_DEVICES"]], out)
os.rename(sys.argv[1], sys.argv[1] + ".json")
time.sleep(float(sys.argv[2]))
"""


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """A machine with four GPUs."""
    (tmp_path / "bin").mkdir()
    smi = tmp_path / "bin/nvidia-smi"
    smi.write_text(
        f'#!/bin/sh\ncase "$1" in *compute*) cat {tmp_path}/busy;; -L) cat {tmp_path}/list;; *) cat {tmp_path}/gpus;; esac\n'
    )
    smi.chmod(0o755)
    (tmp_path / "gpus").write_text("".join(f"{number}, GPU-{letter}\n" for number, letter in enumerate("abcd")))
    (tmp_path / "list").write_text(
        "".join(f"GPU {number}: NVIDIA A100-SXM4-40GB (UUID: GPU-{letter})\n" for number, letter in enumerate("abcd"))
    )
    (tmp_path / "busy").write_text("")
    return tmp_path


def train(machine: Path, name: str, count: int, seconds: float = 60, visible: str | None = None) -> subprocess.Popen:
    environment = os.environ | {"PATH": f"{machine}/bin:{os.environ['PATH']}"}
    environment.pop("CUDA_VISIBLE_DEVICES", None)
    command = [sys.executable, str(SCRIPT), "--count", str(count), "--locks", str(machine / "locks")]
    command += ["--every", "0.1", "--"]
    command += [sys.executable, "-c", LAUNCHER, sys.executable, "-c", TRAINING, str(machine / name), str(seconds)]
    return subprocess.Popen(
        command,
        env=environment | ({} if visible is None else {"CUDA_VISIBLE_DEVICES": visible}),
        stderr=(machine / f"{name}.log").open("w"),
        start_new_session=True,
    )


def started(machine: Path, name: str) -> tuple[int, int, list[str]]:
    """Processes of the training and its launcher, and the devices, once it runs."""
    path = machine / f"{name}.json"
    wait_until(path.exists, name)
    training, launcher, devices = json.loads(path.read_text())
    return training, launcher, devices.split(",")


def end(*runs: subprocess.Popen) -> None:
    for each in runs:
        os.killpg(each.pid, signal.SIGKILL)
        each.wait()


def waits(machine: Path, name: str) -> None:
    wait_until(lambda: "Waiting until" in (machine / f"{name}.log").read_text(), f"{name} to wait")
    time.sleep(0.5)
    assert not (machine / f"{name}.json").exists()


def test_runs_that_start_together_never_share_a_device(machine: Path) -> None:
    runs = [train(machine, f"run{number}", 1, seconds=0.5) for number in range(8)]
    assert [each.wait(60) for each in runs] == [0] * 8
    assert {started(machine, f"run{number}")[2][0] for number in range(8)} <= {"GPU-a", "GPU-b", "GPU-c", "GPU-d"}
    full = [train(machine, f"two{number}", 2) for number in range(2)]
    devices = [device for number in range(2) for device in started(machine, f"two{number}")[2]]
    assert sorted(devices) == ["GPU-a", "GPU-b", "GPU-c", "GPU-d"]
    late = train(machine, "late", 1)
    waits(machine, "late")
    end(full[0])
    assert started(machine, "late")[2][0] in started(machine, "two0")[2]
    end(full[1], late)


def test_a_device_is_held_until_the_training_itself_is_dead(machine: Path) -> None:
    first = train(machine, "first", 4)
    training, launcher, _ = started(machine, "first")
    second = train(machine, "second", 1)
    waits(machine, "second")
    os.kill(launcher, signal.SIGKILL)
    first.wait()
    time.sleep(0.5)
    assert not (machine / "second.json").exists()
    os.kill(training, signal.SIGKILL)
    assert started(machine, "second")[2] == ["GPU-a"]
    end(second)


def test_half_a_claim_is_given_back(machine: Path) -> None:
    first, second = train(machine, "first", 3), None
    started(machine, "first")
    second = train(machine, "second", 2)
    waits(machine, "second")
    third = train(machine, "third", 1)
    assert started(machine, "third")[2] == ["GPU-d"]
    end(first, second, third)


def test_devices_of_others_are_left_alone(machine: Path) -> None:
    (machine / "busy").write_text("GPU-a, python\nGPU-a, [Insufficient Permissions]\n")
    first = train(machine, "first", 1)
    assert started(machine, "first")[2] == ["GPU-b"]
    second = train(machine, "second", 1, visible="GPU-a")
    waits(machine, "second")
    (machine / "busy").write_text("")
    assert started(machine, "second")[2] == ["GPU-a"]
    end(first, second)


def test_the_server_of_mps_keeps_no_device_busy_and_devices_that_are_given_are_kept_to(machine: Path) -> None:
    server = "".join(f"GPU-{letter}, /usr/bin/nvidia-cuda-mps-server\n" for letter in "abcd")
    (machine / "busy").write_text(f"{server}GPU-a, /home/x/my, nvidia-cuda-mps-server/python\n")
    first = train(machine, "first", 3)
    assert started(machine, "first")[2] == ["GPU-b", "GPU-c", "GPU-d"]
    end(first)
    given = train(machine, "given", 2, visible="GPU-d,1")
    assert started(machine, "given")[2] == ["GPU-d", "GPU-b"]
    end(given)


@pytest.fixture
def cut(machine: Path) -> Path:
    """The machine with its first two GPUs cut into instances by MIG."""
    (machine / "list").write_text("""\
GPU 0: NVIDIA A100-SXM4-40GB (UUID: GPU-a)
  MIG 3g.20gb     Device  0: (UUID: MIG-a3)
  MIG 1c.2g.10gb  Device  1: (UUID: MIG-a2)
GPU 1: NVIDIA A100-SXM4-40GB (UUID: GPU-b)
  MIG 7g.40gb     Device  0: (UUID: MIG-GPU-b/7/0)
GPU 2: NVIDIA A100-SXM4-40GB (UUID: GPU-c)
GPU 3: NVIDIA A100-SXM4-40GB (UUID: GPU-d)
""")
    return machine


def test_instances_of_a_gpu_are_devices_and_never_shared(cut: Path) -> None:
    (cut / "busy").write_text("GPU-a, python\nGPU-c, python\n")  # the process of an instance is listed at its GPU
    runs = [train(cut, f"run{number}", 1, visible="MIG-a2,MIG-a3,GPU-c") for number in range(2)]
    assert {started(cut, f"run{number}")[2][0] for number in range(2)} == {"MIG-a2", "MIG-a3"}
    late = train(cut, "late", 1, visible="MIG-a2,MIG-a3,GPU-c")
    waits(cut, "late")
    free = [train(cut, f"free{number}", 1) for number in range(2)]
    assert {started(cut, f"free{number}")[2][0] for number in range(2)} == {"MIG-GPU-b/7/0", "GPU-d"}
    end(*runs, late, *free)


def test_what_cannot_be_claimed_is_a_sentence(cut: Path) -> None:
    for name, count, visible, sentence in (
        ("more", 3, "2,3", r"3 GPUs are requested, 2 can be seen here \(GPU-c, GPU-d\)"),
        (
            "cut",
            1,
            "0",
            r"names the GPU 0, which MIG has cut into instances; name those .* by their ids.*\(MIG-a3, MIG-a2\)",
        ),
        ("two", 2, "MIG-a2,MIG-a3", "2 GPUs are requested, but .* a process sees one instance alone; set `gpus: 1`"),
    ):
        assert train(cut, name, count, visible=visible).wait(60) == 1
        assert re.search(sentence, (cut / f"{name}.log").read_text())


def test_who_may_not_use_the_gpus_may_not_lock_them(tmp_path: Path) -> None:
    for number, (device, mode) in enumerate(((None, 0o600), (0o666, 0o666), (0o660, 0o660))):
        if device is not None:
            (tmp_path / "gpu").touch()
            (tmp_path / "gpu").chmod(device)
        locks = os.open(tmp_path / f"locks{number}", os.O_RDWR | os.O_CREAT, 0o600)
        share(locks, tmp_path / "gpu")
        assert os.fstat(locks).st_mode & 0o777 == mode
        os.close(locks)
