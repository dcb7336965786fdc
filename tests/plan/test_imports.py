"""Planning imports the standard library only: each call of Snakemake and each
of its jobs waits for it.
"""

import pkgutil
import subprocess
import sys
from pathlib import Path

from bimix import plan

SCRIPTS = Path(plan.__file__).parents[2]


def test_planning_imports_the_standard_library_only() -> None:
    names = [f"bimix.plan.{module.name}" for module in pkgutil.iter_modules(plan.__path__)]
    assert {"bimix.plan.dataset", "bimix.plan.shards", "bimix.plan.sources"} < set(names)
    code = f"import sys; before = set(sys.modules); import {', '.join(names)}; print(*set(sys.modules) - before)"
    done = subprocess.run([sys.executable, "-c", code], cwd=SCRIPTS, capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert {name.split(".")[0] for name in loaded} - set(sys.stdlib_module_names) == {"bimix"}
    assert {name for name in loaded if name.startswith("bimix.laws.")} == {"bimix.laws.table"}
