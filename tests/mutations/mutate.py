"""Change one module in one place at a time and see whether its tests notice: `python
tests/mutations/mutate.py training/order`.

A mutant is the module with one operator, number, condition, bound, clamp, transposition, named
argument or statement changed. Each meets those of the module's tests that reach the changed lines,
the quickest first and none after one that fails, in a process of its own, forked from one that has
collected the tests: imports and collection are most of the time. There the changed function gets
its new code. What is no function's, or runs before the tests do, is tried in a process that imports
the changed module before it collects, and so is all where collecting starts threads of polars. The
module is changed in memory only, so tests that start scripts see the true one. What no test notices
is printed, but for what `survivors.toml` lists with the reason why no test could or should. Not
part of CI.
"""

import argparse
import ast
import collections
import copy
import datetime
import importlib
import importlib.abc
import importlib.util
import inspect
import itertools
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
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import CodeType, ModuleType

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "workflow/scripts/bimix"
# What is imported before the first fork; the second is for rooms whose tests train or load models.
LIBRARIES = ["numpy", "polars", "scipy.optimize", "scipy.sparse.csgraph", "scipy.stats", "tokenizers", "yaml"]
LIBRARIES += ["pytest", "xdist.plugin", "pytest_timeout"]
OF_MODELS = ["torch", "accelerate", "safetensors.torch", "transformers.models.gpt_neox.modeling_gpt_neox"]
WITHOUT_MODELS = (
    "design",
    "laws",
    "objectives",
    "observed",
    "optimum",
    "ranking",
    "rivals",
    "scale",
    "scores",
    "solvers",
)
WITHOUT_MODELS += ("transfer",)
# How many threads those libraries take.
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "POLARS_MAX_THREADS", "RAYON_NUM_THREADS")

# The tests of each module, `test_NAME.py` of any folder or of the one named.
TESTS = {
    "corpus/documents": ["documents", "stream"],
    "search/candidates": ["candidates"],
    "search/criterion": ["criterion"],
    "search/proposals": ["propose_runs"],
    "search/regret": ["regret"],
    "search/sensitivity": ["sensitivity"],
    "search/sizes": ["search/sizes"],
    "downstream/accuracy": ["accuracy"],
    "downstream/answers": ["questions", "accuracy", "score_answers"],
    "corpus/counts": ["ngrams", "merge_counts", "measure_entropy"],
    "corpus/estimators": ["entropy", "measure_entropy"],
    "corpus/ngram_model": ["ngram_model"],
    "corpus/vectors": ["entropy"],
    "laws/bimix": ["laws", "law_scripts"],
    "transfer/sized": ["asked_runs", "laws/size", "repetition"],
    "laws/transfer": ["transfer", "signed", "laws/size", "prior"],
    "model/cross_entropy": ["cross_entropy", "doremi"],
    "model/export": ["exported_names", "export"],
    "model/generation": ["continuations", "generation"],
    "optimum/best": ["best", "objectives/search"],
    "optimum/families": ["families"],
    "optimum/goal": ["best", "objectives/search"],
    "optimum/objective_intervals": ["objective_scripts"],
    "optimum/losses": ["best", "objective_scripts"],
    "optimum/objective": ["best", "families", "objectives/search"],
    "optimum/pareto": ["pareto"],
    "optimum/report": ["objective_scripts"],
    "optimum/support": ["support"],
    "observations/arrays": ["layout", "observations"],
    "observations/metrics": ["metrics"],
    "observations/observations": ["layout", "observations", "wide"],
    "observations/record": ["record"],
    "observations/rows": ["observations", "wide"],
    "observations/wide": ["wide"],
    "optimum/bounds": ["run_bounds", "optimum"],
    "optimum/coefficients": ["intervals"],
    "optimum/flags": ["optimum/bounds"],
    "optimum/intervals": ["intervals"],
    "optimum/optimum": ["averages", "optimum"],
    "optimum/simulation": ["swarm"],
    "ranking/board": ["board"],
    "ranking/public": ["board"],
    "reweighting/doge": ["updates", "doge"],
    "reweighting/doremi": ["updates", "doremi"],
    "reweighting/trace": ["doremi", "reweighting"],
    "laws/exponential": ["exponential"],
    "laws/gaussian_process": ["new_rivals"],
    "laws/mariner": ["new_rivals"],
    "laws/olmix": ["new_rivals"],
    "laws/regmix": ["scores/rivals", "new_rivals"],
    "laws/regmix_tuned": ["new_rivals"],
    "laws/scheffe": ["new_rivals"],
    "laws/per_step": ["new_rivals", "exponential"],
    "training/checkpoints": ["checkpoints"],
    "transfer/asked": ["asked_runs", "laws/size", "repetition"],
    "transfer/repetition": ["pieces", "repetition"],
    "transfer/sized_runs": ["laws/size", "repetition"],
    "transfer/single_source": ["repetition"],
    "transfer/size": ["levels", "laws/size"],
    "judge/law_scores": ["score_tables"],
    "judge/learning": ["score_tables"],
    "judge/errors": ["score_tables", "scores"],
    "judge/size_scores": ["judge/size_scores"],
    "optimum/convex": ["interior_point", "convex"],
    "optimum/constrained": ["constrained", "best"],
    "optimum/power_sum": ["power_sum", "optimum"],
    "optimum/search": ["new_rivals"],
    "training/order": ["order"],
    "training/recipe": ["schedules"],
    "transfer/by_domain": ["signed"],
    "transfer/choice": ["choice"],
    "transfer/curve": ["pieces", "transfer"],
    "transfer/factor": ["pieces", "signed"],
    "transfer/levels": ["pieces", "transfer", "signed"],
    "transfer/mixing": ["pieces", "transfer"],
    "observations/prior": ["pieces", "prior"],
    "transfer/refits": ["signed", "transfer"],
    "transfer/signed": ["signed"],
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


@dataclass(frozen=True)
class Mutant:
    """A module with one change: first and last line of it, the statement before and after, the
    function that holds it (None: none does) and the whole new text.
    """

    first: int
    last: int
    old: str
    new: str
    function: str | None
    text: str


def function_of(parent: ast.Module | ast.ClassDef, node: ast.AST, prefix: str = "") -> str | None:
    """The name of the function of a module, or of a class in it, whose body holds the node."""
    for part in parent.body:
        if isinstance(part, ast.ClassDef) and (found := function_of(part, node, f"{prefix}{part.name}.")):
            return found
        if isinstance(part, ast.FunctionDef) and any(one is node for own in part.body for one in ast.walk(own)):
            return prefix + part.name
    return None


def mutants(source: str, limit: int, seed: int) -> tuple[int, list[Mutant]]:
    """How many mutants there are, and at most `limit` of them, drawn."""
    tree = ast.parse(source)
    before = ast.unparse(tree)

    def found(tree: ast.AST, place: tuple[ast.AST, str, int | None]) -> ast.AST:
        parent, field, index = place
        return getattr(parent, field) if index is None else getattr(parent, field)[index]

    nodes = [found(tree, place) for place in places(tree)]
    made = [(position, number) for position, node in enumerate(nodes) for number in range(len(list(changes(node))))]
    drawn = []
    for position, number in made if len(made) <= limit else random.Random(seed).sample(made, limit):
        tree = ast.parse(source)
        parent, field, index = place = list(places(tree))[position]
        own = found(tree, place)
        function = function_of(tree, own)
        new = list(changes(own))[number](copy.deepcopy(own))
        if index is None:
            setattr(parent, field, new)
        else:
            getattr(parent, field)[index] = new
        after = ast.unparse(ast.fix_missing_locations(tree))
        pairs = zip(before.splitlines(), after.splitlines(), strict=False)
        first, second = next((pair for pair in pairs if pair[0] != pair[1]), ("", ""))
        drawn.append(Mutant(own.lineno, own.end_lineno, first.strip(), second.strip(), function, after))
    return len(made), drawn


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


# Seconds of computing that a test of a mutant may take beside five times what it takes of itself;
# and seconds on the clock for one of computing, after which what waits for ever is given up.
SPARED = 10
WAITED = 60
# The status of a process that could not change the function; pytest's own are 0 to 5.
NOT_TRIED = 50


def forked(act: Callable[[], int], seconds: float) -> str:
    """What comes of `act` in a process of its own: "" where it returns 0, "not tried" where that is
    what it says, "no end" where it has not returned after so many seconds of computing, else "a
    test fails".

    Computing, not waiting: a busy machine would else kill mutants.
    """
    child = os.fork()
    if child == 0:
        os.setpgid(0, 0)  # no session of its own: there Linux would give it the time of a program that is not nice
        resource.setrlimit(resource.RLIMIT_CPU, (int(seconds) + 1, int(seconds) + 10))
        status = 1
        try:
            quiet = os.open(os.devnull, os.O_RDWR)
            for stream in (0, 1, 2):
                os.dup2(quiet, stream)
            status = act()
        finally:
            os._exit(min(status, 100))
    until = time.monotonic() + WAITED * seconds
    while time.monotonic() < until:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            if os.WIFSIGNALED(status) and os.WTERMSIG(status) in (signal.SIGXCPU, signal.SIGKILL):
                return "no end"
            return {0: "", NOT_TRIED: "not tried"}.get(os.waitstatus_to_exitcode(status), "a test fails")
        time.sleep(0.02)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return "no end"


def tested(tests: list[str], folder: str, plugins: Sequence[object]) -> int:
    """The status of pytest over some tests; what they write goes below a folder."""
    import pytest

    sys.dont_write_bytecode = True
    options = ["-q", "-x", "-p", "no:cacheprovider", "-p", "no:faulthandler", "-n", "0", "-m", "not slow"]
    options += ["-k", " and ".join(f"not {name}" for name in TOO_LONG), "--rootdir", str(ROOT)]
    return int(pytest.main([*options, "--basetemp", f"{folder}/written", *tests], list(plugins)))


def code_of(within: CodeType, function: str) -> CodeType | None:
    """The code of a function by its name among what a module's or a class's code holds."""
    for code in within.co_consts:
        if isinstance(code, CodeType) and code.co_qualname == function:
            return code
        if isinstance(code, CodeType) and function.startswith(f"{code.co_qualname}."):
            return code_of(code, function)
    return None


def change(module: ModuleType, mutant: Mutant) -> bool:
    """Give the changed function of a module its new code, for all who hold it; False: it is none
    that could be changed so.
    """
    held = module
    for name in (mutant.function or "").split("."):
        held = vars(held).get(name) if held is not None else None
    held = getattr(held, "fget", None) or getattr(held, "func", None) or getattr(held, "__func__", held)
    held = inspect.unwrap(held) if callable(held) else None
    code = code_of(compile(mutant.text, module.__file__, "exec", dont_inherit=True), mutant.function or " ")
    if not inspect.isfunction(held) or code is None or code.co_freevars != held.__code__.co_freevars:
        return False
    held.__code__ = code
    return True


class Tried:
    """A plugin of pytest that runs the collected tests in processes forked from this one: once as
    the module is, to see which lines of it each test runs and how long each computes, then with
    each mutant of a function. Both are written to `found.json` in a folder.

    Where a test sets up what others of its file use as well, those lines are the file's, named as
    such; what runs before the tests has no name.
    """

    def __init__(self, module: str, drawn: list[Mutant], longest: float, folder: str) -> None:
        self.module, self.drawn, self.longest, self.folder = module, drawn, longest, Path(folder)
        self.path = str(PACKAGE / f"{module}.py")
        self.reached: dict[str, set[int]] = {}
        self.spent: dict[str, float] = {}
        self.current, self.begun, self.shared = "", 0.0, 0.0

    def trace(self, frame: object, event: str, argument: object) -> object:
        if frame.f_code.co_filename != self.path:
            return None
        self.reached.setdefault(self.current, set()).add(frame.f_lineno)
        return self.trace

    def pytest_sessionstart(self) -> None:
        sys.settrace(self.trace)
        threading.settrace(self.trace)

    def pytest_runtest_setup(self, item: object) -> None:
        self.current, self.begun = item.nodeid.split("::")[0], time.process_time()

    def pytest_runtest_call(self, item: object) -> None:
        self.shared += time.process_time() - self.begun
        self.current, self.begun = item.nodeid, time.process_time()

    def pytest_runtest_teardown(self, item: object) -> None:
        self.spent[item.nodeid] = time.process_time() - self.begun if self.current == item.nodeid else 0.0
        self.current = item.nodeid.split("::")[0]

    def pytest_runtestloop(self, session: object) -> bool:
        """In place of pytest's own: see above."""
        module = importlib.import_module(f"bimix.{self.module.replace('/', '.')}")
        items, baseline = {item.nodeid: item for item in session.items}, self.folder / "baseline.json"

        def run(tests: list[str], found: dict | None = None) -> int:
            last = resource.getrlimit(resource.RLIMIT_CPU)[1]
            for test, following in itertools.zip_longest(tests, tests[1:]):
                own, then = items[test], items.get(following)
                if found:
                    until = int(time.process_time() + limit(found, [test])) + 1
                    resource.setrlimit(resource.RLIMIT_CPU, (min(until, last), last))
                own.config.hook.pytest_runtest_protocol(item=own, nextitem=then)
                if session.testsfailed:
                    return 1
            return 0

        def look() -> int:
            status = run(list(items))
            sys.settrace(None)
            lines = {test: sorted(lines) for test, lines in self.reached.items()}
            baseline.write_text(json.dumps({"lines": lines, "seconds": self.spent, "shared": self.shared}))
            return status

        def attempt(mutant: Mutant, tests: list[str]) -> int:
            return run(tests, found) if change(module, mutant) else NOT_TRIED

        names = [path.read_text().strip() for path in Path("/proc/self/task").glob("*/comm")]
        # of polars' threads a forked process has none, and would wait for them for ever
        threads = any(name.startswith("polars-") and name[7:].isdigit() for name in names)
        failed = look() if threads else forked(look, 3600)
        sys.settrace(None)
        threading.settrace(None)
        if failed:
            raise RuntimeError("The tests fail without any change.")
        found = json.loads(baseline.read_text())
        before = set(found["lines"].get("", []))
        found["happened"] = []
        for mutant in self.drawn:
            tests = chosen(found, self.longest, mutant)
            quick = not threads and tests and mutant.function and not before & set(range(mutant.first, mutant.last + 1))
            found["happened"].append(
                forked(partial(attempt, mutant, tests), limit(found, tests)) if quick else "not tried"
            )
        (self.folder / "found.json").write_text(json.dumps(found))
        return True


def files_of(module: str) -> list[str]:
    """The files of tests that hold a module."""
    names = [(folder, base) for folder, _, base in (name.rpartition("/") for name in TESTS[module])]
    paths = [path for folder, base in names for path in (ROOT / "tests" / folder).rglob(f"test_{base}.py")]
    return [str(path.relative_to(ROOT)) for path in paths]


def chosen(found: dict, longest: float, mutant: Mutant) -> list[str]:
    """Tests that run a changed line, the quickest first: all tests where it runs before them, all
    of a file where it runs in what its tests share.
    """
    seconds, reached = found["seconds"], found["lines"].items()
    touched = {test for test, lines in reached if any(mutant.first <= line <= mutant.last for line in lines)}
    tests = [test for test in seconds if "" in touched or test in touched or test.split("::")[0] in touched]
    return sorted((test for test in tests if seconds[test] <= longest), key=seconds.__getitem__)


def limit(found: dict, tests: list[str]) -> float:
    """Seconds of computing that a mutant may take over some tests, with what sets them up."""
    return SPARED + 5 * (found["shared"] + sum(found["seconds"][test] for test in tests))


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
        begun = time.monotonic()
        made, drawn = mutants((PACKAGE / f"{module}.py").read_text(), settings.limit, settings.seed)
        with tempfile.TemporaryDirectory() as folder:
            tried = Tried(module, drawn, settings.longest, folder)
            if forked(partial(tested, files_of(module), folder, [tried]), 7200):
                print(f"{module}: its tests fail without any change", flush=True)
                continue
            found = json.loads((Path(folder) / "found.json").read_text())
            long = sorted(test for test, spent in found["seconds"].items() if spent > settings.longest)
            if long:
                print(f"{module}: left out, too long: {', '.join(long)}", flush=True)

            def imported(module: str, mutant: Mutant, tests: list[str], folder: str) -> int:
                sys.meta_path.insert(0, Changed(f"bimix.{module.replace('/', '.')}", mutant.text))
                return tested(tests, folder, [])

            explained = {(entry["old"], entry["new"]) for entry in known.get(module, [])}
            counts = collections.Counter()
            for mutant, happened in zip(drawn, found["happened"], strict=True):
                tests = chosen(found, settings.longest, mutant)
                if happened == "not tried":
                    seconds = limit(found, tests) + SPARED
                    happened = forked(partial(imported, module, mutant, tests, folder), seconds) if tests else ""
                if not happened and (mutant.old, mutant.new) in explained:
                    happened = "a reason"
                counts[happened] += 1
                if happened in ("", "no end"):
                    place = f"{module}.py:{mutant.first}:{happened and ' no end:'}"
                    print(f"{place} {mutant.old}\n    -> {mutant.new}", flush=True)
        print(f"# {time.monotonic() - begun:.0f} s; mutants, seed, drawn, killed (without end), reason, open, day:")
        killed, today = counts["a test fails"] + counts["no end"], datetime.datetime.now(datetime.UTC).date()
        row = [f"`{module}`", made, settings.seed, len(drawn), f"{killed} ({counts['no end']})"]
        print(f"| {' | '.join(map(str, [*row, counts['a reason'], counts[''], today]))} |", flush=True)


if __name__ == "__main__":
    main()
