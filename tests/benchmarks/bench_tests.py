"""The tests that need a GPU, counted: those marked `gpu`, in the one file that has them.

    python tests/benchmarks/bench_tests.py --json numbers.json

Only that file is collected: the others need packages that a GPU machine may not have.
"""

import subprocess
import sys
import tempfile
from pathlib import Path
from xml.etree import ElementTree

import bench


def main(argv: list[str] | None = None) -> int:
    parser = bench.parser(__doc__, "--json")
    parser.add_argument("--least", type=int, default=0, help="tests that must pass: those that are skipped do not")
    options = parser.parse_args(argv)
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "report.xml")
        command = [sys.executable, "-m", "pytest", "-n", "0", "-m", "gpu", "-p", "no:cacheprovider"]
        command += [f"--junitxml={report}", "tests/training/test_cuda.py"]
        status = subprocess.run(command, check=False, cwd=bench.ROOT).returncode
        suite = ElementTree.parse(report).getroot().find("testsuite") if report.exists() else None
    if suite is None:
        return status or 1
    tests, bad = int(suite.get("tests")), int(suite.get("failures")) + int(suite.get("errors"))
    skipped = int(suite.get("skipped"))
    passed = tests - bad - skipped
    bench.keep(options.json, {"passed": passed, "failed": bad, "skipped": skipped})
    print(f"{passed} passed, {bad} failed, {skipped} skipped")
    return status or int(passed < options.least)


if __name__ == "__main__":
    sys.exit(main())
