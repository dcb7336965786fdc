"""Files of tests to processes, so that one that dies costs the test it died of,
and nobody waits for ever.

xdist's own `loadfile` and `loadscope` (3.8.0, issues 1323, 1327 and 1378 there) hand out all files
of a dead process again, those that are through and the deadly test as well. They then wait for
answers that nobody owes.
"""

from pathlib import Path

import pytest
from xdist.scheduler import LoadFileScheduling
from xdist.workermanage import WorkerController

# Files whose tests import LightGBM or scikit-learn, which brings an OpenMP of its own beside
# torch's: two in a process may spoil its memory. One process runs these and nothing else;
# conftest.py holds the list against what is imported.
APART = {
    "every_law",
    "explore",
    "export",
    "frozen_laws",
    "law_figures",
    "metrics",
    "model",
    "new_rivals",
    "rival_laws",
    "rivals",
    "search",
    "swarm",
}


def is_apart(file: str) -> bool:
    """Whether a file of tests, as xdist names it, is one of those apart."""
    return Path(file).stem.removeprefix("test_") in APART


class FileScheduling(LoadFileScheduling):
    """`--dist loadfile` in the order of collection; outlives its processes, keeps files apart."""

    def kinds(self, node: WorkerController) -> set[bool]:
        """Whether a process has files that are apart, others, or (the last one) both."""
        return {is_apart(file) for file in self.assigned_work[node]}

    def choose(self, node: WorkerController) -> str | None:
        """The file that a process gets next; None: the rest is for other processes."""
        own, others = self.kinds(node), [other for other in self.nodes if other is not node]
        if not own:
            begun = any(True in self.kinds(other) for other in others)
            own = {not begun and any(map(is_apart, self.workqueue))}
        mine = next((file for file in self.workqueue if is_apart(file) in own), None)
        if mine is None and all(other.shutting_down for other in others):
            return next(iter(self.workqueue))
        return mine

    def _assign_work_unit(self, node: WorkerController) -> None:
        chosen = self.choose(node)
        if chosen is not None:
            self.workqueue.move_to_end(chosen, last=False)
            super()._assign_work_unit(node)

    def remove_node(self, node: WorkerController) -> str | None:
        """Forget a process that ended: its open tests go first, but for the deadly one."""
        files = self.assigned_work.pop(node)
        deadly = next((test for tests in files.values() for test, done in tests.items() if not done), None)
        if deadly is None:
            return None
        files[self._split_scope(deadly)][deadly] = True
        for file in reversed([name for name, tests in files.items() if not all(tests.values())]):
            self.workqueue[file] = files[file]
            self.workqueue.move_to_end(file, last=False)
        for other in self.nodes:
            self._reschedule(other)
        return deadly

    def _reschedule(self, node: WorkerController) -> None:
        """Keep two tests ahead: the last one begins when no other will come."""
        if node.shutting_down or node not in self.registered_collections:  # the latter: it is still collecting
            return
        while self.workqueue and self._pending_of(self.assigned_work[node]) < 2:
            if self.choose(node) is None:
                node.shutdown()
                return
            self._assign_work_unit(node)
        if not self.workqueue:
            node.shutdown()


def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> FileScheduling | None:
    """The hook of xdist: this schedule for `--dist loadfile`, as in pyproject.toml."""
    return FileScheduling(config, log) if config.getvalue("dist") == "loadfile" else None
