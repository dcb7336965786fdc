"""Files of tests to processes, so that one that dies costs the test it died of,
and nobody waits for ever.

xdist's own `loadfile` and `loadscope` (3.8.0, issues 1323, 1327 and 1378 there) hand out all files
of a dead process again, those that are through and the deadly test as well. They then wait for
answers that nobody owes.
"""

import pytest
from xdist.scheduler import LoadFileScheduling
from xdist.workermanage import WorkerController


class FileScheduling(LoadFileScheduling):
    """`--dist loadfile` in the order of collection that outlives its processes."""

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
            self._assign_work_unit(node)
        if not self.workqueue:
            node.shutdown()


def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> FileScheduling | None:
    """The hook of xdist: this schedule for `--dist loadfile`, as in pyproject.toml."""
    return FileScheduling(config, log) if config.getvalue("dist") == "loadfile" else None
