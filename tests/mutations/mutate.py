"""Change one module in one place at a time and see whether its tests notice: `python
tests/mutations/mutate.py training/order`.

A mutant is the module with one operator, number, condition, bound, clamp, transposition, named
argument or statement changed. Each runs those of the module's tests that reach the changed lines,
the quickest first and none after one that fails. It does so in a process of its own, forked from
one that has imported the libraries. Without that, imports are most of the time. The module is
changed in memory only, so tests that start scripts see the true one. What no test notices is
printed, but for what `survivors.toml` lists with the reason why no test could or should. Not part
of CI.
"""

import argparse
import ast
import copy
import datetime
import importlib
import importlib.abc
import importlib.util
import json
import os
import random
import resource
import signal
import sys
import tempfile
import threading
import time
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "workflow/scripts/bimix"
# What is imported before the first fork; the second is for rooms whose tests train or load models.
LIBRARIES = ["numpy", "polars", "scipy.optimize", "scipy.sparse.csgraph", "scipy.stats", "tokenizers", "yaml"]
LIBRARIES += ["pytest", "xdist.plugin", "pytest_timeout"]
OF_MODELS = ["torch", "accelerate", "safetensors.torch", "transformers.models.gpt_neox.modeling_gpt_neox"]
WITHOUT_MODELS = ("laws", "optimum", "scores", "transfer")
# How many threads those libraries take.
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "POLARS_MAX_THREADS", "RAYON_NUM_THREADS")

TESTS = {
    "data/documents": ["documents", "stream"],
    "downstream/accuracy": ["accuracy"],
    "downstream/answers": ["questions", "accuracy", "score_answers"],
    "entropy/counts": ["ngrams", "merge_counts", "measure_entropy"],
    "entropy/estimators": ["entropy", "measure_entropy"],
    "laws/bimix": ["laws", "law_scripts"],
    "rivals/exponential": ["exponential"],
    "observed/arrays": ["layout", "observations"],
    "observed/observations": ["layout", "observations", "wide"],
    "observed/rows": ["observations", "wide"],
    "model/cross_entropy": ["cross_entropy", "doremi"],
    "model/export": ["exported_names", "export"],
    "model/generation": ["continuations", "generation"],
    "optimum/bounds": ["run_bounds", "optimum"],
    "solvers/convex": ["interior_point", "convex"],
    "optimum/intervals": ["intervals"],
    "optimum/optimum": ["averages", "optimum"],
    "solvers/power_sum": ["power_sum", "optimum"],
    "reweighting/doge": ["updates", "doge"],
    "reweighting/doremi": ["updates", "doremi"],
    "runs/checkpoints": ["checkpoints"],
    "scores/laws": ["score_tables"],
    "scores/learning": ["score_tables"],
    "scores/scores": ["score_tables", "scores"],
    "training/order": ["order"],
    "training/recipe": ["schedules"],
    "transfer/choice": ["choice"],
    "transfer/curve": ["pieces", "transfer"],
    "transfer/mixing": ["pieces", "transfer"],
    "transfer/prior": ["pieces", "prior"],
    "scale/repetition": ["pieces", "repetition"],
    "scale/size": ["levels"],
}
# Tests of a quarter of a minute and more, on laws and runs for which there are smaller ones.
TOO_LONG = ["on_the_public_runs", "left_out_intervals", "compare_all_laws", "never_worse_than", "a_right_prior_helps"]
TOO_LONG += [
    "keeps_the_prior_off",
    "recovered_from_many_runs",
    "a_known_law_of_repeated_runs",
    "best_share_of_wikipedia",
]

COMPARISONS = {ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq}
COMPARISONS |= {ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is}
OPERATORS = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult}
OPERATORS |= {ast.Mod: ast.Mult, ast.Pow: ast.Mult, ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd}
OPERATORS |= {ast.LShift: ast.RShift, ast.RShift: ast.LShift}
OPPOSITES = {"min": "max", "max": "min"}
CLAMPS = ("maximum", "minimum", "clip", "clamp")


def changes(node: ast.AST) -> Iterator[Callable[[ast.AST], ast.AST]]:
    """Ways to change one node; each gets a copy of it and returns what stands in its place."""

    def setting(**fields: object) -> Callable[[ast.AST], ast.AST]:
        def change(own: ast.AST) -> ast.AST:
            for name, value in fields.items():
                setattr(own, name, value)
            return own

        return change

    match node:
        case ast.Compare(ops=[operator]) if type(operator) in COMPARISONS:
            yield setting(ops=[COMPARISONS[type(operator)]()])
        case ast.BinOp(op=operator) | ast.AugAssign(op=operator) if type(operator) in OPERATORS:
            yield setting(op=OPERATORS[type(operator)]())
        case ast.BoolOp(op=operator):
            yield setting(op=ast.Or() if isinstance(operator, ast.And) else ast.And())
        case ast.UnaryOp(op=ast.Not() | ast.USub()):
            yield lambda own: own.operand
        case ast.Constant(value=bool()):
            yield setting(value=not node.value)
        case ast.Constant(value=int() | float()):
            yield setting(value=node.value + 1)
        case ast.If() | ast.IfExp() | ast.While():
            yield setting(test=ast.UnaryOp(ast.Not(), node.test))
        case ast.Slice():
            for bound in ("lower", "upper", "step"):
                if getattr(node, bound) is not None:
                    yield setting(**{bound: None})
        case ast.Name(id=name) if name in OPPOSITES:
            yield setting(id=OPPOSITES[name])
        case ast.Attribute(attr="T"):
            yield lambda own: own.value
        case ast.Call(func=ast.Attribute(attr=name)) if name in CLAMPS and node.args:
            yield lambda own: own.args[0]
        case ast.Call(keywords=keywords):
            for number, keyword in enumerate(keywords):
                if keyword.arg not in (None, "strict"):
                    yield setting(keywords=keywords[:number] + keywords[number + 1 :])
        case ast.Expr(value=ast.Call()) | ast.Raise() | ast.Continue() | ast.Break():
            yield lambda own: ast.Pass()


def places(tree: ast.AST) -> Iterator[tuple[ast.AST, str, int | None]]:
    """(parent, field, index) of every node below `tree`, in the order of the source.

    Annotations are left out, what an error says, and zip's `strict`: it guards against what never
    happens.
    """
    for field, value in ast.iter_fields(tree):
        if field in ("annotation", "returns", "decorator_list", "format_spec") or isinstance(tree, ast.Raise):
            continue
        for index, node in enumerate(value) if isinstance(value, list) else [(None, value)]:
            if isinstance(node, ast.AST) and not (isinstance(node, ast.keyword) and node.arg == "strict"):
                yield tree, field, index
                yield from places(node)


def mutants(source: str, limit: int, seed: int) -> tuple[int, Iterator[tuple[tuple[int, int], str, str, str]]]:
    """How many mutants there are, and (first and last line, old statement, new statement, whole new
    source) of at most `limit` of them, drawn.
    """

    def at(tree: ast.AST, position: int) -> tuple[ast.AST, str, int | None, ast.AST]:
        parent, field, index = list(places(tree))[position]
        return parent, field, index, getattr(parent, field) if index is None else getattr(parent, field)[index]

    tree = ast.parse(source)
    before = ast.unparse(tree)
    nodes = [getattr(one, field) if index is None else getattr(one, field)[index] for one, field, index in places(tree)]
    made = [(position, number) for position, node in enumerate(nodes) for number in range(len(list(changes(node))))]
    drawn = made if len(made) <= limit else random.Random(seed).sample(made, limit)

    def each() -> Iterator[tuple[tuple[int, int], str, str, str]]:
        for position, number in drawn:
            tree = ast.parse(source)
            parent, field, index, own = at(tree, position)
            new = list(changes(own))[number](copy.deepcopy(own))
            if index is None:
                setattr(parent, field, new)
            else:
                getattr(parent, field)[index] = new
            after = ast.unparse(ast.fix_missing_locations(tree))
            pairs = zip(before.splitlines(), after.splitlines(), strict=False)
            first, second = next((pair for pair in pairs if pair[0] != pair[1]), ("", ""))
            yield (own.lineno, own.end_lineno), first.strip(), second.strip(), after

    return len(made), each()


class Changed(importlib.abc.MetaPathFinder, importlib.abc.SourceLoader):
    """Imports one module from a text."""

    def __init__(self, module: str, text: str) -> None:
        self.module, self.text = module, text

    def find_spec(self, name: str, path: object = None, target: object = None) -> object:
        if name != self.module:
            return None
        return importlib.util.spec_from_file_location(name, self.get_filename(name), loader=self)

    def get_filename(self, name: str) -> str:
        return str(PACKAGE.parent / (name.replace(".", "/") + ".py"))

    def get_data(self, path: str) -> bytes:
        return self.text.encode()


class Reached:
    """A plugin of pytest: which tests run which lines of one module, and how long each computes,
    written as JSON at the end of the session.

    Where a test sets up what others of its file use as well, those lines are the file's, named as
    such.
    """

    def __init__(self, module: str, out: str) -> None:
        self.path, self.out = str(PACKAGE / f"{module}.py"), out
        self.reached: dict[str, set[int]] = {}
        self.spent: dict[str, float] = {}
        self.current, self.begun = "", 0.0

    def trace(self, frame: object, event: str, argument: object) -> object:
        if frame.f_code.co_filename != self.path:
            return None
        self.reached.setdefault(self.current, set()).add(frame.f_lineno)
        return self.trace

    def pytest_sessionstart(self) -> None:
        sys.settrace(self.trace)
        threading.settrace(self.trace)

    def pytest_runtest_setup(self, item: object) -> None:
        self.current = item.nodeid.split("::")[0]

    def pytest_runtest_call(self, item: object) -> None:
        self.current, self.begun = item.nodeid, time.process_time()

    def pytest_runtest_teardown(self, item: object) -> None:
        self.spent[item.nodeid] = time.process_time() - self.begun if self.current == item.nodeid else 0.0
        self.current = item.nodeid.split("::")[0]

    def pytest_sessionfinish(self) -> None:
        sys.settrace(None)
        lines = {test: sorted(lines) for test, lines in self.reached.items()}
        Path(self.out).write_text(json.dumps({"lines": lines, "seconds": self.spent}))


# Seconds on the clock for one of computing, after which what waits for ever is given up.
WAITED = 40


def files_of(module: str) -> list[str]:
    """The files of tests that hold a module."""
    return [str(path.relative_to(ROOT)) for name in TESTS[module] for path in (ROOT / "tests").rglob(f"test_{name}.py")]


def notices(module: str, text: str, seconds: float, tests: list[str], out: str | None = None) -> bool:
    """Whether a test fails, or none has an answer after so many seconds of computing, where the
    module reads `text`.

    Computing, not waiting: a busy machine would else kill mutants. With `out`, which lines each
    test runs goes to that file.
    """
    child = os.fork()
    if child == 0:
        os.setpgid(0, 0)  # no session of its own: there Linux would give it the time of a program that is not nice
        resource.setrlimit(resource.RLIMIT_CPU, (int(seconds) + 1, int(seconds) + 10))
        quiet = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(quiet, stream)
        sys.dont_write_bytecode = True
        sys.meta_path.insert(0, Changed(f"bimix.{module.replace('/', '.')}", text))
        status = 1
        try:
            import pytest

            options = ["-q", "-x", "-p", "no:cacheprovider", "-p", "no:faulthandler", "-n", "0", "-m", "not slow"]
            options += ["-k", " and ".join(f"not {name}" for name in TOO_LONG), "--rootdir", str(ROOT)]
            status = int(pytest.main([*options, *tests], [Reached(module, out)] if out else []))
        finally:
            os._exit(min(status, 100))
    until = time.monotonic() + WAITED * seconds
    while time.monotonic() < until:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return status != 0
        time.sleep(0.02)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return True


def chosen(reached: dict[str, list[int]], seconds: dict[str, float], first: int, last: int) -> list[str]:
    """Tests that run one of the lines, the quickest first: all tests where they run when the module
    is imported, all of a file where they run in what its tests share.
    """
    touched = {test for test, lines in reached.items() if any(first <= line <= last for line in lines)}
    tests = [test for test in seconds if "" in touched or test in touched or test.split("::")[0] in touched]
    return sorted(tests, key=seconds.__getitem__)


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "modules", nargs="*", default=sorted(TESTS), help="of the package, all that are listed by default"
    )
    parser.add_argument("--limit", type=int, default=120, help="mutants of a module, drawn where there are more")
    parser.add_argument("--seed", type=int, default=0, help="of that draw")
    parser.add_argument(
        "--longest", type=float, default=20, help="seconds of computing; tests that take longer are left out"
    )
    settings = parser.parse_args(argv)
    os.environ |= dict.fromkeys(THREADS, "1")
    os.chdir(ROOT)
    known = tomllib.loads((Path(__file__).parent / "survivors.toml").read_text())
    models = any(not module.startswith(WITHOUT_MODELS) for module in settings.modules)
    for library in [*LIBRARIES, *(OF_MODELS if models else [])]:
        importlib.import_module(library)
    for module in settings.modules:
        source = (PACKAGE / f"{module}.py").read_text()
        begun = time.monotonic()
        with tempfile.NamedTemporaryFile() as lines:
            if notices(module, source, 3600, files_of(module), lines.name):
                print(f"{module}: its tests fail without any change", flush=True)
                continue
            found = json.loads(Path(lines.name).read_text())
        long = sorted(test for test, spent in found["seconds"].items() if spent > settings.longest)
        seconds = {test: spent for test, spent in found["seconds"].items() if test not in long}
        if long:
            print(f"{module}: left out, too long: {', '.join(long)}", flush=True)
        made, drawn = mutants(source, settings.limit, settings.seed)
        explained = {(entry["old"], entry["new"]) for entry in known.get(module, [])}
        number = reasons = unexplained = 0
        for place, old, new, text in drawn:
            number += 1
            tests = chosen(found["lines"], seconds, *place)
            if tests and notices(module, text, 30 + 5 * sum(seconds[test] for test in tests), tests):
                continue
            if (old, new) in explained:
                reasons += 1
                continue
            unexplained += 1
            print(f"{module}.py:{place[0]}: {old}\n    -> {new}", flush=True)
        killed = number - reasons - unexplained
        today = datetime.datetime.now(datetime.UTC).date()
        print(f"# {time.monotonic() - begun:.0f} s; module, mutants, drawn, killed, with a reason, open, day:")
        print(f"| `{module}` | {made} | {number} | {killed} | {reasons} | {unexplained} | {today} |", flush=True)


if __name__ == "__main__":
    main()
