"""A real Slurm on the loopback interface for the tests: munged, slurmctld and slurmd for nodes with
pretended A100s.

All of it lives in one temporary folder and ends with the tests. Needs root and Debian's packages
munge, slurmctld, slurmd, slurm-client and slurm-wlm-basic-plugins; no system service is touched.
What mattered:
- a GPU is a character device (a copy of /dev/null): with plain files Slurm sets no
  CUDA_VISIBLE_DEVICES;
- cred_expire is how long a requeued job waits before it starts again: 120 s unless it is set;
- Snakemake's jobs drop SLURM_CONF, hence wrappers of the commands that put it back.
"""

import os
import random
import shutil
import signal
import socket
import stat
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

DAEMONS = ["munged", "mungekey", "slurmctld", "slurmd"]
COMMANDS = ["sbatch", "srun", "scancel", "squeue", "sinfo", "scontrol", "sacctmgr", "sshare"]
NODES = ["gpu1", "gpu2", "gpu3", "gpu4", "gpu5", "cpu1"]
GPUS = 8
MARK = "LOOPBACK_CLUSTER"  # in the environment of every process of a cluster: its folder
PROFILE_BIN = Path(__file__).parents[2] / "workflow/profiles/slurm/bin"
PATH = "/usr/sbin:/usr/bin:/sbin:/bin"

SLURM_CONF = """
ClusterName=loopback
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={port}
SrunPortRange={first}-{last}
CommunicationParameters=NoInAddrAny,NoCtldInAddrAny
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket,cred_expire=5
SlurmUser=root
SlurmdUser=root
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/log/slurmctld.log
SlurmdLogFile={folder}/log/slurmd-%n.log
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
PlugStackConfig={folder}/plugstack.conf
Prolog={folder}/prolog
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
MpiDefault=none
SwitchType=switch/none
SlurmdParameters=config_overrides
ReturnToService=2
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU_Memory
GresTypes=gpu
SchedulerType=sched/backfill
SchedulerParameters=bf_interval=1,sched_interval=1,sched_min_interval=0,batch_sched_delay=0
PriorityType=priority/basic
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
MinJobAge=3600
KillWait=30
SlurmctldTimeout=30
SlurmdTimeout=60
JobRequeue=1
JobCompType=jobcomp/filetxt
JobCompLoc={folder}/log/jobs
AccountingStorageType=accounting_storage/none
NodeName=DEFAULT CPUs=64 RealMemory=1000000 State=UNKNOWN
{nodes}
PartitionName=DEFAULT DefaultTime=60 MaxTime=UNLIMITED State=UP
PartitionName=gpu Nodes=gpu1 Default=YES PriorityTier=10 PreemptMode=off
PartitionName=spare Nodes=gpu2 PriorityTier=1 PreemptMode=requeue
PartitionName=loose Nodes=gpu5 PriorityTier=1 PreemptMode=cancel
PartitionName=urgent Nodes=gpu2,gpu5 PriorityTier=100 PreemptMode=off
PartitionName=pair Nodes=gpu3,gpu4 PriorityTier=10 PreemptMode=off
PartitionName=cpu Nodes=cpu1 PriorityTier=10 PreemptMode=off
"""


def obstacle() -> str | None:
    """Why no cluster can be started here, or None."""
    missing = [name for name in [*DAEMONS, *COMMANDS[:6]] if shutil.which(name, path=PATH) is None]
    if missing:
        return f"Slurm is not installed ({', '.join(missing)} missing); .ci/run says which packages it takes."
    if os.geteuid() != 0:
        return "A cluster for tests is started by root alone."
    with tempfile.TemporaryDirectory() as folder:
        try:
            os.mknod(f"{folder}/nvidia0", stat.S_IFCHR | 0o666, os.makedev(1, 3))
        except PermissionError:
            return "Devices cannot be made here (mknod), so that no GPU can be pretended."
    return None


class Cluster:
    """A running cluster; `environment` is for its commands and for Snakemake."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.daemons: dict[str, subprocess.Popen] = {}
        self.port = free_ports(500)
        self.environment = {
            **{
                name: value for name, value in os.environ.items() if not name.startswith(("SLURM_", "SBATCH_", "SRUN_"))
            },
            "PATH": f"{folder}/asked:{PROFILE_BIN}:{folder}/bin:{os.environ['PATH']}:{PATH}",
            "SLURM_CONF": f"{folder}/slurm.conf",
            MARK: str(folder),
        }
        write_settings(folder, self.port)

    def start(self) -> None:
        """Start every daemon and wait until all nodes are idle."""
        folder = self.folder
        subprocess.run(
            ["mungekey", "--create", f"--keyfile={folder}/munge.key"], check=True, env=self.environment | {"PATH": PATH}
        )
        (folder / "munge.key").chmod(0o600)
        files = [f"--{name}-file={folder}/munge.{name}" for name in ("key", "pid", "log", "seed")]
        self.launch("munged", "--foreground", "--force", f"--socket={folder}/munge.socket", *files)
        wait_until(lambda: (folder / "munge.socket").exists(), "munged")
        self.start_controller()
        for node in NODES:
            self.start_node(node)
        wait_until(lambda: set(self.call("sinfo", "-h", "-N", "-o", "%T").split()) == {"idle"}, "nodes")

    def launch(self, name: str, *arguments: str, label: str | None = None) -> None:
        log = (self.folder / f"log/{label or name}.out").open("ab")
        # dies with this process, however it dies
        command = ["setpriv", "--pdeathsig", "KILL", name, *arguments]
        environment = self.environment | {"PATH": f"{PATH}:{self.environment['PATH']}"}
        self.daemons[label or name] = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment, start_new_session=True
        )
        log.close()

    def start_controller(self) -> None:
        self.launch("slurmctld", "-D", "-f", f"{self.folder}/slurm.conf")
        wait_until(lambda: "is UP" in self.call("scontrol", "ping", check=False), "slurmctld")

    def start_node(self, node: str) -> None:
        self.launch("slurmd", "-D", "-N", node, "-f", f"{self.folder}/slurm.conf", label=node)

    def kill(self, label: str) -> None:
        """Kill a daemon of this object: unreaped, so that the number is its own."""
        daemon = self.daemons.pop(label)
        daemon.kill()
        daemon.wait()

    def break_node(self, node: str) -> None:
        """What a power cut does: slurmd, its steps and all their processes are gone at once."""
        self.kill(node)
        for number in self.processes(node):
            os.kill(number, signal.SIGKILL)

    def mend_nodes(self, state: str = "down") -> None:
        """Start the daemons of nodes that are down (drain: resume those that are drained), and wait
        until all nodes are idle.
        """
        states = ("sinfo", "-h", "-N", "-o", "%N %T")
        for node in {line.split()[0] for line in self.call(*states).splitlines() if state in line}:
            if state == "down":
                self.start_node(node)
            # refused where the node has returned by itself meanwhile; that
            # all are idle is what counts
            self.call("scontrol", "update", f"NodeName={node}", "State=RESUME", check=False)
        wait_until(lambda: {line.split()[1] for line in self.call(*states).splitlines()} == {"idle"}, "nodes")

    def call(self, *command: str, check: bool = True) -> str:
        """Standard output and error of one of Slurm's commands."""
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=self.environment, timeout=60)
        if check and done.returncode:
            raise RuntimeError(f"{command} failed: {done.stdout}{done.stderr}")
        return done.stdout + done.stderr

    def processes(self, node: str | None = None) -> list[int]:
        """Processes of this cluster's jobs (on one node), daemons left out."""
        wanted = {f"{MARK}={self.folder}"} | ({f"SLURMD_NODENAME={node}"} if node else set())
        daemons = {daemon.pid for daemon in self.daemons.values()} | {os.getpid()}
        found = []
        for entry in Path("/proc").glob("[0-9]*"):
            try:
                environment = set((entry / "environ").read_text(errors="replace").split("\0"))
                title = (entry / "cmdline").read_text(errors="replace")
            except OSError:  # it has ended
                continue
            at_node = node is None or wanted <= environment or f"slurmstepd-{node}" in title
            if wanted - {f"SLURMD_NODENAME={node}"} <= environment and at_node and int(entry.name) not in daemons:
                found.append(int(entry.name))
        return found

    def stop(self) -> None:
        """End every process of the cluster, each known by its environment."""
        for label in [*NODES, "slurmctld", "munged"]:
            if label in self.daemons:
                self.kill(label)
        for _ in range(50):
            left = self.processes()
            if not left:
                return
            for number in left:
                try:
                    os.kill(number, signal.SIGKILL)
                except ProcessLookupError:
                    continue
            time.sleep(0.1)
        raise RuntimeError(f"processes of the cluster are still running: {left}")


def write_settings(folder: Path, port: int) -> None:
    """Write all that the daemons read, and the pretended devices."""
    for name in ("log", "state", "bin", "asked", "dev", *(f"spool-{node}" for node in NODES)):
        (folder / name).mkdir(parents=True)
    folder.chmod(0o755)
    host = socket.gethostname().split(".")[0]
    nodes = [
        f"NodeName={node} NodeHostname={host} NodeAddr=127.0.0.1 Port={port + 1 + number}"
        + (f" Gres=gpu:a100:{GPUS} Feature=a100" if node.startswith("gpu") else "")
        for number, node in enumerate(NODES)
    ]
    ports = {"port": port, "first": port + 100, "last": port + 499}
    text = SLURM_CONF.format(host=host, folder=folder, nodes="\n".join(nodes), **ports)
    (folder / "slurm.conf").write_text(text)
    (folder / "plugstack.conf").touch()
    (folder / "prolog").write_text(f"#!/bin/sh\n[ ! -e {folder}/broken ]\n")  # no job begins while this file is there
    (folder / "prolog").chmod(0o755)
    version = subprocess.run(["/usr/sbin/slurmctld", "-V"], capture_output=True, text=True, check=True).stdout
    number = tuple(int(part) for part in version.split()[-1].split("-")[0].split(".")[:2])
    (folder / "cgroup.conf").write_text("CgroupPlugin=disabled\n" if number >= (23, 11) else "")
    for number in range(GPUS):
        os.mknod(folder / f"dev/nvidia{number}", stat.S_IFCHR | 0o666, os.makedev(1, 3))
    devices = f"Name=gpu Type=a100 File={folder}/dev/nvidia[0-{GPUS - 1}] Flags=nvidia_gpu_env"
    (folder / "gres.conf").write_text(f"AutoDetect=off\nNodeName={','.join(NODES[:-1])} {devices}\n")
    for name in COMMANDS:
        found = shutil.which(name, path=PATH)
        if found:
            wrapper = folder / "bin" / name
            wrapper.write_text(f'#!/bin/sh\nSLURM_CONF={folder}/slurm.conf exec {found} "$@"\n')
            wrapper.chmod(0o755)
    # there is no accounting: the profile's stand-in, which leaves a mark when it is asked
    wrapper = folder / "asked/sacct"
    wrapper.write_text(f'#!/bin/sh\necho "$@" >>{folder}/log/sacct\nexec {PROFILE_BIN}/sacct "$@"\n')
    wrapper.chmod(0o755)


def free_ports(count: int) -> int:
    """The first of `count` ports in a row, the first four of which are free now."""
    while True:
        first = random.randrange(20000, 32000 - count)
        try:
            for port in range(first, first + 4):
                with socket.socket() as trial:
                    trial.bind(("127.0.0.1", port))
            return first
        except OSError:
            continue


def wait_until(happened: Callable[[], object], what: str, seconds: float = 60) -> None:
    """Wait for something to happen; the error after so many seconds names it."""
    until = time.monotonic() + seconds
    while not happened():
        if time.monotonic() > until:
            raise TimeoutError(f"{what}: nothing after {seconds} s")
        time.sleep(0.05)
