"""What a cluster does to jobs, done to trainings by a real Slurm: each ends with the
losses of an undisturbed run.

All runs are of one mixture, by models that differ in their names alone: one undisturbed run is what
each is compared with, and none takes over another's, as runs of one model would. One call of
Snakemake trains them side by side; a fault strikes each as soon as its attempt has saved a state.
"""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import groupby, pairwise
from pathlib import Path

import checkout
import pytest
import yaml
from mini_dataset import mini_config, write_checkout
from refusals import refused
from slurm_cluster import PROFILE_BIN, Cluster, obstacle, wait_until

import check_cluster
from bimix.results.watch import held_jobs

PROFILE = "workflow/profiles/slurm/config.yaml"
ON_CLUSTER = ("--workflow-profile", "workflow/profiles/slurm")
STEPS = 2500
LIMIT = 900  # seconds that one call of Snakemake may take here
pytestmark = pytest.mark.timeout(2400)  # its fixture of struck runs is longer than any other test
GPUS = {"gpus": 8, "threads": 8}


def losses(model: str) -> str:
    return f"results/mini/runs/{model}/plain/losses.parquet"


def attempts(folder: Path, model: str) -> list[dict]:
    """What the attempts at a model's run have noted, in the order of writing."""
    paths = folder.glob(f"results/mini/runs/{model}/plain/state/*/attempts.jsonl")
    return [json.loads(line) for path in paths for line in path.read_text().splitlines()]


def took_turns(lines: list[dict]) -> bool:
    """Whether no attempt wrote anything after the next had begun."""
    turns = [key for key, _ in groupby((line["host"], line["process"], line["job"]) for line in lines)]
    begun = [line["event"] for line in lines].count("begun")
    return len(turns) == len(set(turns)) == begun


def prepare(folder: Path) -> None:
    """A copy of the workflow, and one model under as many names as there are faults."""
    models = {name: {} for name in ("slim", "orphaned", "restarted", *FAULTS)}
    models |= {"wide": GPUS | {"batch_rows": 8}, "both": {"gpus": 2, "threads": 2, "nodes": 2}}
    config = mini_config(STEPS, STEPS // 10, **models)
    write_checkout(folder, config, ["plain"])


def edit_profile(folder: Path) -> None:
    """Edit the lines of the profile that a user edits."""
    profile = yaml.safe_load((folder / PROFILE).read_text())
    del profile["default-resources"]["slurm_account"]  # there is no accounting here
    profile |= {"slurm-init-seconds-before-status-checks": 1, "latency-wait": 10}
    partitions = "{'preempted': 'spare', 'dropped': 'loose', 'lost': 'pair'}.get(wildcards.model, 'gpu')"
    own = {
        "slurm_partition": partitions,
        "runtime": "1 if wildcards.model == 'limited' and attempt == 1 else 60",
        "mem": "1GB",
    }
    # trained on the CPU with a pretended GPU beside it; a minute is too short
    # for a signal before its end
    own |= {"gres": "gpu:a100:1", "slurm_extra": "'' if wildcards.model == 'limited' else '--signal=TERM@120'"}
    profile["set-resources"]["pretrain_model"] |= own
    (folder / PROFILE).write_text(yaml.safe_dump(profile))


def snakemake(folder: Path, *arguments: str, environment: dict | None = None) -> subprocess.Popen:
    with (folder / "snakemake.log").open("ab") as log:
        return subprocess.Popen(
            [sys.executable, "-m", "snakemake", *arguments, "--configfile", "mini.yaml"],
            cwd=folder,
            env=environment or os.environ,
            stdout=log,
            stderr=log,
        )


def said(folder: Path) -> str:
    return (folder / "snakemake.log").read_text()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    if obstacle() is not None:
        assert "REQUIRE_SLURM" not in os.environ, obstacle()
        pytest.skip(obstacle())
    started = Cluster(tmp_path_factory.mktemp("slurm") / "c")
    try:
        started.start()
        yield started
    finally:
        started.stop()


@pytest.fixture(scope="module")
def prepared(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the tokens and a mixture."""
    folder = tmp_path_factory.mktemp("prepared")
    prepare(folder)
    targets = ("results/mini/tokens/train.parquet", "results/mini/mixtures/plain.json")
    done = checkout.call(folder, *targets, "--configfile", "mini.yaml")
    assert done.returncode == 0, done.stdout + done.stderr
    edit_profile(folder)
    return folder


@pytest.fixture(scope="module")
def undisturbed(prepared: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Such a folder with a run without a cluster."""
    folder = tmp_path_factory.mktemp("undisturbed") / "w"
    shutil.copytree(prepared, folder)
    done = snakemake(folder, losses("slim"), "--cores", "2")
    assert done.wait(LIMIT) == 0, said(folder)
    return folder


def job_of(line: dict) -> str:
    assert line["job"] is not None
    return line["job"]


def cancel(cluster: Cluster, line: dict) -> None:
    cluster.call("scancel", job_of(line))


def requeue(cluster: Cluster, line: dict) -> None:
    cluster.call("scontrol", "requeue", job_of(line))


def preempt(cluster: Cluster, line: dict) -> None:
    """A job that needs all GPUs of the run's node, in a partition that goes first."""
    node = cluster.call("squeue", "-h", "-j", job_of(line), "-o", "%N").strip()
    cluster.call("sbatch", "-p", "urgent", "-w", node, "--gres=gpu:a100:8", "-o", "/dev/null", "--wrap", "sleep 1")


def lose_node(cluster: Cluster, line: dict) -> None:
    node = cluster.call("squeue", "-h", "-j", job_of(line), "-o", "%N").strip()
    cluster.break_node(node)
    cluster.call("scontrol", "update", f"NodeName={node}", "State=DOWN", "Reason=broken")


def kill_training(cluster: Cluster, line: dict) -> None:
    assert line["process"] in cluster.processes()
    os.kill(line["process"], signal.SIGKILL)


# What strikes a run, and how often. SLURM requeues `preempted` and cancels `dropped`. The first
# attempt of `limited` has a time limit at which it stops by itself.
FAULTS: dict[str, tuple[Callable[[Cluster, dict], None] | None, int]] = {
    "cancelled": (cancel, 1),
    "requeued": (requeue, 1),
    "preempted": (preempt, 1),
    "dropped": (preempt, 1),
    "limited": (None, 0),
    "lost": (lose_node, 1),
    "unlucky": (kill_training, 2),
}


def strike(cluster: Cluster, folder: Path, running: subprocess.Popen) -> dict[str, int]:
    """Hit each run once an attempt has saved a state, as often as due, until the end."""
    struck: dict[str, list] = {run: [] for run in FAULTS}
    until = time.monotonic() + LIMIT
    while running.poll() is None:
        assert time.monotonic() < until, said(folder)
        for run, (fault, times) in FAULTS.items():
            lines = attempts(folder, run)
            due = len(struck[run]) < times and lines and lines[-1]["event"] == "saved" and lines[-1]["step"] < STEPS
            if due and lines[-1]["process"] not in struck[run]:
                fault(cluster, lines[-1])
                struck[run].append(lines[-1]["process"])
        time.sleep(0.05)
    return {run: len(hit) for run, hit in struck.items()}


def orphan(cluster: Cluster, folder: Path) -> None:
    """Kill Snakemake while its training hangs, and call it again."""
    arguments = (losses("orphaned"), *ON_CLUSTER)
    state = folder / "results/mini/runs/orphaned/plain/state"
    running = snakemake(folder, *arguments, environment=cluster.environment)
    try:
        wait_until(
            lambda: [line for line in attempts(folder, "orphaned") if line["event"] == "saved"], "a state", LIMIT
        )
        running.kill()
        running.wait()
        process = attempts(folder, "orphaned")[-1]["process"]
        os.kill(process, signal.SIGSTOP)
        assert snakemake(folder, "--unlock", environment=cluster.environment).wait() == 0
        running = snakemake(folder, *arguments, environment=cluster.environment)
        wait_until((state / "stop").exists, "an attempt that waits", LIMIT)
        os.kill(process, signal.SIGCONT)
        assert running.wait(LIMIT) == 0, said(folder)
    finally:
        running.kill()
        running.wait()


@pytest.fixture(scope="module")
def struck(cluster: Cluster, undisturbed: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of all runs, each struck by its fault while it trained."""
    apart = tmp_path_factory.mktemp("apart") / "w"
    shutil.copytree(undisturbed, apart)
    targets = [losses(run) for run in FAULTS]
    arguments = (*targets, *ON_CLUSTER)
    running = snakemake(undisturbed, *arguments, environment=cluster.environment)
    with ThreadPoolExecutor() as pool:
        orphaned = pool.submit(orphan, cluster, apart)
        try:
            hits = strike(cluster, undisturbed, running)
        finally:
            running.kill()
        assert running.wait() == 0, said(undisturbed)
        orphaned.result()
    assert hits == {run: times for run, (_, times) in FAULTS.items()}
    shutil.copytree(apart / "results/mini/runs/orphaned", undisturbed / "results/mini/runs/orphaned")
    return undisturbed


@pytest.mark.full
@pytest.mark.slow
@pytest.mark.parametrize("run", [*FAULTS, "orphaned"])
def test_a_struck_run_ends_with_the_losses_of_an_undisturbed_one(struck: Path, run: str) -> None:
    assert (struck / losses(run)).read_bytes() == (struck / losses("slim")).read_bytes()
    lines = attempts(struck, run)
    begun = [line["step"] for line in lines if line["event"] == "begun"]
    assert len(begun) == (3 if run == "unlucky" else 2)
    assert begun[0] == 0 and all(step > 0 for step in begun[1:])  # none began anew
    assert took_turns(lines)


@pytest.mark.full
@pytest.mark.slow
def test_no_two_jobs_of_a_run_were_on_the_cluster_at_once(cluster: Cluster, struck: Path) -> None:
    """But for the orphaned, whose second job waited for the first to stop."""
    jobs = [line.split("|") for line in cluster.call("squeue", "-h", "--states=all", "-o", "%k|%S|%e").splitlines()]
    trained = sorted(job for job in jobs if "pretrain_model" in job[0] and "orphaned" not in job[0])
    assert len({comment for comment, _, _ in trained}) == len(FAULTS)
    for _, own in groupby(trained, key=lambda job: job[0]):
        assert all(before[2] <= after[1] for before, after in pairwise(own))


@pytest.mark.full
@pytest.mark.slow
def test_a_controller_that_dies_is_asked_until_it_answers(cluster: Cluster, undisturbed: Path, tmp_path: Path) -> None:
    """What a controller was told in the seconds before it dies is lost."""
    folder, asked = tmp_path / "w", cluster.folder / "log/sacct"
    shutil.copytree(undisturbed, folder)
    running = snakemake(folder, losses("restarted"), *ON_CLUSTER, environment=cluster.environment)
    try:
        wait_until(
            lambda: [line for line in attempts(folder, "restarted") if line["event"] == "saved"], "a state", LIMIT
        )
        asked.unlink(missing_ok=True)
        cluster.kill("slurmctld")
        wait_until(lambda: asked.exists() and "--name" in asked.read_text(), "a question", LIMIT)
        time.sleep(1)
        cluster.start_controller()
        assert running.wait(LIMIT) == 0, said(folder)
    finally:
        running.kill()
        running.wait()
    assert (folder / losses("restarted")).read_bytes() == (undisturbed / losses("slim")).read_bytes()
    events = [line["event"] for line in attempts(folder, "restarted")]
    assert events.count("begun") == 1 and events[-1] == "finished"


@pytest.mark.slow
def test_eight_gpus_of_the_model_are_asked_for_on_one_node_and_an_interrupt_cancels(
    cluster: Cluster, prepared: Path, tmp_path: Path
) -> None:
    shutil.copytree(prepared, tmp_path / "w")
    profile = yaml.safe_load((tmp_path / "w" / PROFILE).read_text())
    del profile["set-resources"]["pretrain_model"]["gres"]
    (tmp_path / "w" / PROFILE).write_text(yaml.safe_dump(profile))
    arguments = (losses("wide"), *ON_CLUSTER)
    running = snakemake(tmp_path / "w", *arguments, environment=cluster.environment)
    named = ("squeue", "-h", "--states=all", "-o", "%i|%k|%T")
    own = "|rule_pretrain_model_wildcards_mini_wide_plain|"
    wait_until(lambda: running.poll() is not None or own in cluster.call(*named), "a job", LIMIT)
    assert running.poll() is None, said(tmp_path / "w")
    [job] = [line.split("|")[0] for line in cluster.call(*named).splitlines() if own in line]
    asked = cluster.call("scontrol", "show", "job", job)
    running.send_signal(signal.SIGINT)
    running.wait(LIMIT)
    assert re.search(r"TresPerJob=gres[:/]gpu:a100:8\b", asked)
    assert re.search(r"NumNodes=1(-1)? NumCPUs=8 NumTasks=1 ", asked)
    wait_until(lambda: f"{job}{own}CANCELLED" in cluster.call(*named), "the job cancelled")


PRETENDED = {
    "bin/nvidia-smi": """#!/bin/sh
case $1 in *compute*) ;; *) for n in 0 1; do echo "$n, $SLURMD_NODENAME-$n"; done;; esac
""",
    # the nodes are on this machine, whose names nobody resolves
    "bin/scontrol": """#!/bin/sh
[ "$2" != hostnames ] || exec echo 127.0.0.1
exec CLUSTER/bin/scontrol "$@"
""",
    # what claims pretended GPUs trains on the CPU
    "lib/sitecustomize.py": """
import sys
if sys.argv[0].endswith("pretrain_model.py"):
    sys.argv.append("--cpu")
""",
}


@pytest.mark.full
@pytest.mark.slow
def test_four_processes_on_two_nodes_go_on_after_one_is_lost(
    cluster: Cluster, undisturbed: Path, tmp_path: Path
) -> None:
    """Two on each node, by gloo; the bytes are those of a run that nothing has struck."""
    cluster.mend_nodes()  # the one that another test has lost
    folder = tmp_path / "w"
    shutil.copytree(undisturbed, folder)
    config = yaml.safe_load((folder / "mini.yaml").read_text())
    config["datasets"]["mini"]["training"]["both"] |= {"steps": 200, "evaluate_every": 20}
    (folder / "mini.yaml").write_text(yaml.safe_dump(config))
    profile = yaml.safe_load((folder / PROFILE).read_text())
    own = profile["set-resources"]["pretrain_model"]
    own |= {"gres": "gpu:a100:2", "slurm_partition": "pair", "mpi": "srun", "tasks": 2, "tasks_per_gpu": 0}
    (folder / PROFILE).write_text(yaml.safe_dump(profile))
    for name, script in PRETENDED.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(script.replace("CLUSTER", str(cluster.folder)))
        (tmp_path / name).chmod(0o755)
    environment = cluster.environment | {"PATH": f"{tmp_path}/bin:{cluster.environment['PATH']}"}
    environment |= {"PYTHONPATH": f"{tmp_path}/lib"}
    # in a folder of its own: a finished run of the same mixture would be taken over
    whole = tmp_path / "whole"
    shutil.copytree(folder, whole)
    done = snakemake(whole, losses("both"), *ON_CLUSTER, environment=environment)
    assert done.wait(LIMIT) == 0, said(whole)
    running = snakemake(folder, losses("both"), *ON_CLUSTER, environment=environment)
    try:
        saved = lambda: [line for line in attempts(folder, "both") if line["event"] == "saved"]  # noqa: E731
        wait_until(saved, "a state", LIMIT)
        cluster.break_node("gpu4")
        cluster.call("scontrol", "update", "NodeName=gpu4", "State=DOWN", "Reason=broken")
        waits = ("squeue", "-h", "-j", job_of(saved()[0]), "-o", "%T")
        wait_until(lambda: "PENDING" in cluster.call(*waits), "the job put back", LIMIT)
        wait_until(lambda: not cluster.processes("gpu3"), "the end of all processes on the other node", LIMIT)
        cluster.start_node("gpu4")
        cluster.call("scontrol", "update", "NodeName=gpu4", "State=RESUME", check=False)
        assert running.wait(LIMIT) == 0, said(folder)
    finally:
        running.kill()
        running.wait()
    runs = [one / losses("both") for one in (folder, whole)]
    for name in ("losses.parquet", "model.safetensors"):
        assert runs[0].with_name(name).read_bytes() == runs[1].with_name(name).read_bytes()
    lines = attempts(folder, "both")
    begun = [line for line in lines if line["event"] == "begun"]
    assert [line["processes"] for line in begun] == [4, 4] and begun[1]["step"] > 0
    assert took_turns(lines)


def test_a_job_that_slurm_holds_after_a_failed_launch_is_named_until_it_is_released(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where a node's prolog fails: SLURM requeues the job, and never starts it by itself."""
    monkeypatch.setenv("PATH", cluster.environment["PATH"])
    assert held_jobs() == []
    (cluster.folder / "broken").touch()
    job = cluster.call("sbatch", "--parsable", "-p", "cpu", "-o", "/dev/null", "--wrap", "sleep 100").strip()
    wait_until(held_jobs, "a held job")
    (line,) = held_jobs()
    assert f"job {job} (launch failed requeued held)" in line and f"scontrol release {job}" in line
    (cluster.folder / "broken").unlink()
    cluster.mend_nodes("drain")
    cluster.call("scontrol", "release", job)
    wait_until(lambda: cluster.call("squeue", "-h", "-j", job, "-o", "%T").strip() == "RUNNING", "its start")
    assert held_jobs() == []
    cluster.call("scancel", job)


def test_the_profiles_squeue_changes_one_state_and_keeps_the_exit_status(tmp_path: Path) -> None:
    own = tmp_path / "squeue"
    own.write_text(
        '#!/bin/sh\n[ "$1" = --fail ] && exit 3\nprintf "%s\\n" "1|PREEMPTED" "2_[3-4]|PENDING" "PREEMPTED|5"\n'
    )
    own.chmod(0o755)
    for place in (PROFILE_BIN, f"{PROFILE_BIN}/"):  # a slash at the end would let it start itself for ever
        environment = os.environ | {"PATH": f"{place}:{tmp_path}:{os.environ['PATH']}"}
        command = ["timeout", "20", "squeue", "--noheader"]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        assert done.stdout.splitlines() == ["1|FAILED", "2_[3-4]|PENDING", "PREEMPTED|5"]
    assert subprocess.run(["squeue", "--fail"], env=environment, check=False).returncode == 3


def set_partitions(folder: Path, others: str, trainings: str) -> None:
    profile = yaml.safe_load((folder / PROFILE).read_text())
    profile["default-resources"]["slurm_partition"] = others
    profile["set-resources"]["pretrain_model"]["slurm_partition"] = trainings
    (folder / PROFILE).write_text(yaml.safe_dump(profile))


@pytest.mark.full
def test_the_doctor_finds_the_cluster_sound(cluster: Cluster, undisturbed: Path, tmp_path: Path) -> None:
    folder = tmp_path / "w"
    shutil.copytree(undisturbed, folder)
    shutil.rmtree(folder / "results")
    set_partitions(folder, "cpu", "gpu")
    done = subprocess.run(
        [sys.executable, "workflow/scripts/check_cluster.py", "--profile", "workflow/profiles/slurm"],
        cwd=folder,
        env=cluster.environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=LIMIT,
    )
    log = folder / "doctor/snakemake.log"
    assert done.returncode == 0, done.stdout + done.stderr + (log.read_text() if log.exists() else "")
    assert re.search(r"ok +queue and training: job \d+ on \S+ began", done.stdout)
    assert "after SIGTERM another attempt went on at step" in done.stdout
    assert "partitions: trainings go to gpu, other jobs to cpu" in done.stdout
    named = cluster.call("squeue", "-h", "--states=all", "-o", "%P %k").splitlines()
    assert {line.split()[0] for line in named if "doctor" in line and "pretrain_model" not in line} == {"cpu"}


def test_the_doctor_names_a_wrong_partition(cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(PROFILE_BIN.parent, tmp_path / "workflow/profiles/slurm")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", cluster.environment["PATH"].replace(f"{PROFILE_BIN}:", ""))
    for others, trainings, sentence in (
        ("cqu", "gpu", "show partition --oneliner cqu` failed"),
        ("gpu", "cpu", "trainings go to the partition 'cpu', which has no GPUs"),
        ("cpu", "loose", "put workflow/profiles/slurm/bin first on PATH"),
    ):
        set_partitions(tmp_path, others, trainings)
        refused(re.escape(sentence), check_cluster.partitions, Path("workflow/profiles/slurm"), 1)
    monkeypatch.setenv("PATH", f"workflow/profiles/slurm/bin:{os.environ['PATH']}")
    assert check_cluster.partitions(Path("workflow/profiles/slurm"), 1) == "trainings go to loose, other jobs to cpu."
    profile = yaml.safe_load((tmp_path / PROFILE).read_text())
    profile |= {"default-resources": ["slurm_partition=cpu"], "set-resources": ["pretrain_model:slurm_partition=gpu"]}
    (tmp_path / PROFILE).write_text(yaml.safe_dump(profile))
    assert check_cluster.partitions(Path("workflow/profiles/slurm"), 1) == "trainings go to gpu, other jobs to cpu."
