"""Whether the files of a finished run agree with each other: digests, fingerprint, last state,
losses and weights.

The restore drill builds the model of the last state again and evaluates it on the held-out rows.
"""

import math
import re
from functools import partial
from pathlib import Path

import polars as pl
import torch
from accelerate import Accelerator

from bimix.digests import digest_file
from bimix.errors import InputError
from bimix.mixtures.mixture import Mixture
from bimix.model.transformer import Shape, Transformer
from bimix.results.verify_files import Findings
from bimix.tables import read_json, read_table
from bimix.training import artefacts, checkpoints
from bimix.training.attempt import tokens_of
from bimix.training.rows import RowStore, open_rows
from bimix.training.session import forget_settings
from bimix.training.update import Recipe, evaluate

# How far a loss may be from the recorded one, relative. Other devices and sizes of parts move fp32
# losses by less than 1e-6 and bf16 ones by less than 1e-3; a wrong weight moves them by more.
TOLERANCES = {"no": 1e-5, "bf16": 5e-3}
MICRO_BATCH = 4  # rows at once in the restore drill
LOSS_CHUNK = 1024  # tokens whose scores over the vocabulary exist at once, likewise
ROW = re.compile(r" rows of (\d+) tokens,")  # of a line of a run's data
ENTRIES = {"shape": "shape", "recipe": "training", "mixture": "mixture"}  # of run.json: prefixes in the fingerprint
NEEDED = {"files", "state", "shape", "recipe", "mixture", "data", "tokens", "parameters", "flops", "seed"}
Indices = dict[str, pl.DataFrame] | None


def read_report(path: Path) -> dict:
    """A run's run.json. Errors: it is damaged, or of a version that noted no digests."""
    report = read_json(path)
    if missing := NEEDED - report.keys():
        raise InputError(f"{path} has no entry {min(missing)!r}: it is damaged, or of a version before digests.")
    return report


def check_run(path: Path, found: Findings, indices: Indices = None, drill: bool = False) -> None:
    """Check the finished run whose run.json is at `path`. `indices`: the token indices that it was
    trained on; with `drill` its last state is evaluated.
    """
    with found.noting(path, "finished runs"):
        report = read_report(path)
        state = path.parent if (path.parent / "fingerprint.json").exists() else path.parent / "state" / report["state"]
        check_files(report, path, state, found)
        with found.noting(path, "sizes, tokens and FLOPs of runs"):
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
        with found.noting(state / "fingerprint.json", "fingerprints"):
            check_fingerprint(report, path, state, found)
        if "command" in report:
            found.unchecked.append(f"{state} holds what a command of the user's saved: its last state.")
        elif saved := sorted(state.glob("step-*.pt")):
            check_state(report, path.parent, saved[-1], found, indices, drill)
        else:
            found.unchecked.append(f"{state} holds no checkpoint (those of swarms are dropped): its last state.")


def check_files(report: dict, path: Path, state: Path, found: Findings) -> None:
    """Compare a run's files with the digests in its run.json, in its state and in the workflow."""
    checks = {}
    for name, digest in report["files"].items():
        if state.is_dir():
            checks[state / name] = partial(artefacts.check_digest, state / name, digest, path)
        elif name.startswith("weights/"):  # of an evaluation on the way: it is in the state only
            found.unchecked.append(f"{state / name} is not there.")
        if not name.startswith("weights/"):
            checks[path.parent / name] = partial(artefacts.check_digest, path.parent / name, digest, path)
    found.compare(checks, "files of runs against their digests")


def check_costs(report: dict, path: Path, found: Findings) -> None:
    """Compute the seed of a run.json again and, of a model of our own, its size, tokens and FLOPs,
    on which laws over sizes and costs of methods rest.
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
        flops = tokens * shape.flops_per_token(length)
        if "reweighting" in path.parts:  # which reads more rows than it trains on
            found.expect(report["flops"] >= flops, f"{path}: flops is {report['flops']}, but training took {flops}.")
            flops = report["flops"]
        expected |= {"parameters": shape.parameters, "tokens": tokens, "flops": flops}
    for name, value in expected.items():
        found.expect(report[name] == value, f"{path}: {name} is {report[name]!r}, but its run has {value!r}.")


def check_fingerprint(report: dict, path: Path, state: Path, found: Findings) -> None:
    """Compare a run's fingerprint with its run.json and with the name of its folder."""
    place = state / "fingerprint.json"
    fingerprint = read_json(place)
    key = checkpoints.key_of(fingerprint)
    fault = f"{place} is that of {key}, but it lies in {state.name} and {path} names {report['state']}."
    found.expect(key == state.name == report["state"], fault)
    entries = report | {"mixture": Mixture.parse(report["mixture"], path).flat()}
    reported = {f"{prefix}.{key}": value for name, prefix in ENTRIES.items() for key, value in entries[name].items()}
    reported |= report["data"]
    prefixes = tuple(f"{name}." for name in (*ENTRIES.values(), "train", "validation"))
    for name in sorted(reported.keys() | {name for name in fingerprint if name.startswith(prefixes)}):
        one, other = fingerprint.get(name), reported.get(name)
        found.expect(one == other, f"{place}: {name} is {one!r}, but {other!r} in {path}.")


def check_state(report: dict, folder: Path, saved: Path, found: Findings, indices: Indices, drill: bool) -> None:
    """Compare the last state of a run with its losses and its weights; with `drill` evaluate it."""
    try:
        last, _ = checkpoints.read(saved)
    except Exception as error:  # of bytes that are no checkpoint torch raises nothing narrower
        found.fault(f"{saved} cannot be read ({error}).", saved)
        return
    found.vouched.add(saved)
    with found.noting(saved, "last states against losses"):
        table, steps = folder / "losses.parquet", report["recipe"]["steps"]
        losses = read_table(artefacts.check(table))
        domains = losses["domain"].unique(maintain_order=True).to_list()
        tokens, history = report["tokens"] // steps, dict(last["history"])
        remembered = [
            (step, step * tokens, domain, loss)
            for step, values in history.items()
            for domain, loss in zip(domains, values, strict=False)
        ]
        written = losses.filter(pl.col("step") <= last["step"]).select("step", "tokens", "domain", "loss").rows()
        same = written == remembered and all(len(values) == len(domains) for values in history.values())
        found.expect(same, f"{table} does not hold the losses that {saved} remembers.", table)
        if last["step"] != steps:
            found.unchecked.append(f"{saved} is not of the run's end, step {steps}: its weights.")
        elif "model.safetensors" in report["files"]:
            with found.noting(saved, "weights against last states"):
                check_weights(last["model"], folder / "model.safetensors", saved, found)
        if drill:
            restore(last, losses, report, saved, found, indices)


def check_weights(model: dict[str, torch.Tensor], path: Path, saved: Path, found: Findings) -> None:
    """Compare the weights of a state with those in a file, bit by bit."""
    weights, _ = checkpoints.read_weights(path, "pt")
    found.expect(weights.keys() == model.keys(), f"{path} does not hold the tensors that {saved} holds.", path)
    for name in sorted(weights.keys() & model.keys()):
        found.expect(torch.equal(weights[name], model[name]), f"{path}: {name} is not what {saved} holds.", path)


def restore(last: dict, losses: pl.DataFrame, report: dict, saved: Path, found: Findings, indices: Indices) -> None:
    """Build a state's model again and compare its evaluation with the losses at its step."""
    recipe = Recipe(**report["recipe"])
    recorded = dict(losses.filter(pl.col("step") == last["step"]).select("domain", "loss").iter_rows())
    if indices is None or not recorded:
        lack = "the tokens of its run are not there" if indices is None else f"step {last['step']} was not evaluated"
        found.unchecked.append(f"{saved} was not restored: {lack}.")
        return
    domains = sorted(recorded)
    store = RowStore(indices["validation"], domains, open_rows)
    held_out = [store.sample(number, recipe.validation_rows) for number in range(len(domains))]
    forget_settings()
    accelerator = Accelerator()
    model = Transformer(Shape(**report["shape"]), loss_chunk=LOSS_CHUNK)
    try:
        model.load_state_dict(last["model"])
    except RuntimeError as error:
        raise InputError(f"{saved} does not fit the shape in its run.json ({error}).") from error
    model = model.to(accelerator.device)
    with torch.autocast(accelerator.device.type, torch.bfloat16, enabled=recipe.precision == "bf16"):
        measured = evaluate(accelerator, model, held_out, MICRO_BATCH)
    for domain, loss in zip(domains, measured, strict=True):
        found.expect(
            math.isclose(loss, recorded[domain], rel_tol=TOLERANCES[recipe.precision]),
            f"{saved} evaluates to a loss of {loss:.6f} of {domain}, but {recorded[domain]:.6f} was recorded.",
        )
    found.checked["last states restored and evaluated"] += 1
