"""Whether what a finished run left agrees with itself: digests, fingerprint, last
state, losses and weights.

The restore drill builds the model of the last state anew and evaluates it on the held-out rows.
"""

import math
import os
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import polars as pl
import torch
from accelerate import Accelerator

from bimix.digests import digest_file
from bimix.errors import InputError
from bimix.mixtures.mixture import Mixture
from bimix.model.transformer import Shape, Transformer
from bimix.results.verify_findings import Findings
from bimix.tables import read_json, read_table
from bimix.training import artefacts, checkpoints, rows
from bimix.training.launch import forget_settings, open_rows
from bimix.training.reports import tokens_of
from bimix.training.rows import RowStore
from bimix.training.update import Recipe, evaluate

# How far a loss may be from the recorded one, relative. Other devices and sizes of parts move fp32
# losses by less than 1e-6 and bf16 ones by less than 1e-3; a wrong weight moves them by more.
TOLERANCES = {"no": 1e-5, "bf16": 5e-3}
MICRO_BATCH = 4  # rows at once in the restore drill
LOSS_CHUNK = 1024  # tokens whose scores over the vocabulary exist at once, likewise
ROW = re.compile(r" rows of (\d+) tokens,")  # of a line of a run's data
ENTRIES = {"shape": "shape", "recipe": "training", "mixture": "mixture"}  # of run.json: prefixes in the fingerprint


def check_shards(index: pl.DataFrame, vocabulary: int, found: Findings) -> None:
    """Hold every file of a token index against its digest and the vocabulary; a fault
    for each that is not right.
    """
    columns = index.filter(pl.col("rows") > 0).select("path", "dtype", "rows", "tokens", "digest").rows()

    def fault(row: tuple) -> str | None:
        try:
            rows.check_shard(*row, vocabulary)
        except InputError as error:
            return str(error)
        except (TypeError, ValueError, OSError) as error:
            return f"{row[0]} cannot be read as the token index lists it ({error})."
        return None

    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        for sentence in filter(None, pool.map(fault, columns)):
            found.fault(sentence)
    found.vouched |= {Path(path) for path, *_ in columns}
    found.checked["files of tokens against their digests"] += len(columns)


def read_report(path: Path) -> dict:
    """A run's run.json. Errors: it is damaged, or of a version that noted no digests."""
    report = read_json(path)
    missing = {
        "files",
        "state",
        "shape",
        "recipe",
        "mixture",
        "data",
        "tokens",
        "parameters",
        "flops",
        "seed",
    } - report.keys()
    if missing:
        raise InputError(f"{path} has no entry {min(missing)!r}: it is damaged, or of a version before digests.")
    return report


def check_run(path: Path, found: Findings, indices: dict[str, pl.DataFrame] | None = None, drill: bool = False) -> None:
    """Check the finished run whose run.json is at `path`.

    `indices`: the token indices that it was trained on; with `drill` its last state is evaluated.
    """
    with found.noting(path):
        report = read_report(path)
        folder = path.parent
        state = folder if (folder / "fingerprint.json").exists() else folder / "state" / report["state"]
        found.checked["finished runs"] += 1
        with found.noting(path):
            Mixture.parse(report["mixture"], path)
        check_files(report, path, state, found)
        with found.noting(path):
            check_costs(report, path, found)
        if indices is not None and report["data"]:  # else a command has read files of its own
            same = tokens_of(indices) == report["data"]
            found.expect(same, f"{path}: the run was trained on other tokens than the token index lists now.")
        if not state.is_dir():
            found.unchecked.append(f"{state} is not there: fingerprint, last state and weights of its run.")
            return
        kept = state / artefacts.REPORT
        if kept.is_file() and not kept.samefile(path):  # a copy of a hard link
            found.expect(digest_file(kept) == digest_file(path), f"{path} is not the one that its run keeps in {kept}.")
        with found.noting(state / "fingerprint.json"):
            check_fingerprint(report, path, state, found)
        check_state(report, folder, state, found, indices if drill else None, drill)


def check_files(report: dict, path: Path, state: Path, found: Findings) -> None:
    """Hold a run's files against the digests in its run.json, both those in its state and
    those lent to the workflow.
    """
    for name, digest in report["files"].items():
        kept = name.startswith("weights/")  # of an evaluation on the way: it is in the state only
        places = {state / name} if kept else {path.parent / name, *([state / name] if state.is_dir() else [])}
        if kept and not state.is_dir():
            found.unchecked.append(f"{state / name} is not there.")
            continue
        for place in sorted(places):
            found.vouched.add(place)
            with found.noting(place):
                artefacts.check_digest(place, digest, path)
                found.checked["files of runs against their digests"] += 1


def check_costs(report: dict, path: Path, found: Findings) -> None:
    """Compute again what a run.json says of its seed and, of a model of our own, of its size, its
    tokens and its FLOPs, which laws over sizes and costs of methods are made of.
    """
    recipe = report["recipe"]
    expected = {"seed": recipe.get("seed", report["seed"])}
    if "command" not in report:
        shape = Shape(**report["shape"])
        lengths = {int(length) for line in report["data"].values() for length in ROW.findall(line)}
        if len(lengths) != 1:
            raise InputError(f"{path} does not say of how many tokens its rows are.")
        (length,) = lengths
        tokens = recipe["steps"] * recipe["batch_rows"] * length
        expected |= {"parameters": shape.parameters, "tokens": tokens}
        flops = tokens * shape.flops_per_token(length)
        if "reweighting" in path.parts:  # which reads more rows than it trains on
            found.expect(report["flops"] >= flops, f"{path}: flops is {report['flops']}, but training took {flops}.")
        else:
            expected["flops"] = flops
    for name, value in expected.items():
        found.expect(report[name] == value, f"{path}: {name} is {report[name]!r}, but its run has {value!r}.")
    found.checked["sizes, tokens and FLOPs of runs"] += 1


def check_fingerprint(report: dict, path: Path, state: Path, found: Findings) -> None:
    """Hold what defined a run against its run.json and against the name of its folder."""
    fingerprint = read_json(state / "fingerprint.json")
    key = checkpoints.key_of(fingerprint)
    found.expect(
        key == state.name == report["state"],
        f"{state / 'fingerprint.json'} is that of {key}, but it lies in {state.name} and {path} names {report['state']}.",
    )
    entries = report | {"mixture": Mixture.parse(report["mixture"], path).flat()}
    said = {f"{prefix}.{key}": value for name, prefix in ENTRIES.items() for key, value in entries[name].items()}
    said |= report["data"]
    prefixes = tuple(f"{name}." for name in (*ENTRIES.values(), "train", "validation"))
    for name in sorted(said.keys() | {name for name in fingerprint if name.startswith(prefixes)}):
        found.expect(
            said.get(name) == fingerprint.get(name),
            f"{state / 'fingerprint.json'}: {name} is {fingerprint.get(name)!r}, but {said.get(name)!r} in {path}.",
        )
    found.checked["fingerprints"] += 1


def check_state(
    report: dict, folder: Path, state: Path, found: Findings, indices: dict[str, pl.DataFrame] | None, drill: bool
) -> None:
    """Hold the last state of a run against its losses and its weights; with `drill` evaluate it."""
    saved = sorted(state.glob("step-*.pt"))
    if "command" in report:
        found.unchecked.append(f"{state} holds what a command of the user's saved: its last state.")
        return
    if not saved:
        found.unchecked.append(f"{state} holds no checkpoint (those of swarms are dropped): its last state.")
        return
    try:
        last, _ = checkpoints.read(saved[-1])
    except Exception as error:  # of bytes that are no checkpoint torch raises nothing narrower
        found.fault(f"{saved[-1]} cannot be read ({error}).")
        return
    found.vouched.add(saved[-1])
    with found.noting(saved[-1]):
        losses = read_table(artefacts.check(folder / "losses.parquet"))
        check_history(last, losses, report, folder / "losses.parquet", saved[-1], found)
        found.checked["last states against losses"] += 1
        steps = report["recipe"]["steps"]
        if last["step"] != steps:
            found.unchecked.append(f"{saved[-1]} is not of the run's end, step {steps}: its weights.")
        elif "model.safetensors" in report["files"]:
            check_weights(last["model"], folder / "model.safetensors", saved[-1], found)
        if drill:
            restore(last, losses, report, saved[-1], found, indices)


def check_history(last: dict, losses: pl.DataFrame, report: dict, table: Path, state: Path, found: Findings) -> None:
    """Hold the losses that a state remembers against the table, number by number."""
    domains = losses["domain"].unique(maintain_order=True).to_list()
    step_tokens = report["tokens"] // report["recipe"]["steps"]
    history = dict(last["history"])
    written = losses.filter(pl.col("step") <= last["step"])
    remembered = [
        (step, step * step_tokens, domain, loss)
        for step, values in history.items()
        for domain, loss in zip(domains, values, strict=False)
    ]
    rows = written.select("step", "tokens", "domain", "loss").rows()
    same = rows == remembered and all(len(values) == len(domains) for values in history.values())
    found.expect(same, f"{table} does not hold the losses that {state} remembers.")


def check_weights(model: dict[str, torch.Tensor], path: Path, state: Path, found: Findings) -> None:
    """Hold the weights of a state against those in a file, bit by bit."""
    weights, _ = checkpoints.read_weights(path, "pt")
    found.expect(weights.keys() == model.keys(), f"{path} does not hold the tensors that {state} holds.")
    for name in sorted(weights.keys() & model.keys()):
        found.expect(torch.equal(weights[name], model[name]), f"{path}: {name} is not what {state} holds.")
    found.checked["weights against last states"] += 1


def restore(
    last: dict,
    losses: pl.DataFrame,
    report: dict,
    state: Path,
    found: Findings,
    indices: dict[str, pl.DataFrame] | None,
) -> None:
    """The restore drill: build the model of a state anew and evaluate it to the
    losses recorded at its step.
    """
    recipe = Recipe(**report["recipe"])
    recorded = dict(losses.filter(pl.col("step") == last["step"]).select("domain", "loss").iter_rows())
    if indices is None or not recorded:
        lack = "the tokens of its run are not there" if indices is None else f"step {last['step']} was not evaluated"
        found.unchecked.append(f"{state} was not restored: {lack}.")
        return
    domains = sorted(recorded)
    store = RowStore(indices["validation"], domains, open_rows)
    held = [store.sample(number, recipe.validation_rows) for number in range(len(domains))]
    forget_settings()
    accelerator = Accelerator()
    model = Transformer(Shape(**report["shape"]), loss_chunk=LOSS_CHUNK)
    try:
        model.load_state_dict(last["model"])
    except RuntimeError as error:
        raise InputError(f"{state} does not fit the shape in its run.json ({error}).") from error
    model = model.to(accelerator.device)
    with torch.autocast(accelerator.device.type, torch.bfloat16, enabled=recipe.precision == "bf16"):
        measured = evaluate(accelerator, model, held, MICRO_BATCH)
    for domain, loss in zip(domains, measured, strict=True):
        found.expect(
            math.isclose(loss, recorded[domain], rel_tol=TOLERANCES[recipe.precision]),
            f"{state} evaluates to a loss of {loss:.6f} of {domain}, but {recorded[domain]:.6f} was recorded.",
        )
    found.checked["last states restored and evaluated"] += 1
