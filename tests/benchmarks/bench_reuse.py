"""What the runs of an earlier corpus are worth when a domain is added: one domain, or one source of
domains, left out of old runs, then 0, 1, 2 or 4 further runs that train on it, against fits from
scratch.

Registered before the first run: the pick is the run of the whole table that the fitted law
`transfer` expects to have the least mean loss; regret is how far its mean loss lies above the
least, in per cent. Rivals: a fit from scratch to as many runs in total, and to four times the
further runs, all drawn at random. Rule: old runs and f further ones reach the goal where their mean
regret is at most that of 4 f runs from scratch, for f = 2 and 4. Old runs are drawn from those
with a share of at most 0.1 %, further ones from those with 2 % and more; the old runs' losses on
the domain's held-out text are known in one half of the rows (their weights were kept), and hidden
in the other. `--domains` are drawn anew in each draw.

`--coverage` writes what decides the floor of the intervals of domains that no run trains on
(transfer/unseen.py), of the fits without further runs: of each run with 2 % and more the error of
its log losses, and how far a deviation of 1 of log k moves them. `--floors` reads it: tuned on the
first table, the least floor with which 90 % intervals hold 90 % is reported on the others.

python tests/benchmarks/bench_reuse.py path/with/all/data --draws 4 --domains 4
"""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import bench
import numpy as np
import polars as pl
from laws.known import who_speak_alike
from public_tables import from_wide, olmix, regmix

from bimix.laws.fitted import fit, predict_runs
from bimix.observations.observations import Observations, read_observations
from bimix.observations.prior import read_gaps
from bimix.transfer import unseen

PROOF = bench.ROOT / "resources/observations/proof"
FURTHER, SCRATCH = (0, 1, 2, 4), (4, 8, 16)
ABSENT, THERE = 0.001, 0.02
MADE, NOISE = 8, 0.003
FLOORS = (0.0, 0.5, 1.0, 1.4, 1.5, 1.6, 1.7, 2.0, 3.0)


def tables(folder: Path) -> Iterator[tuple[str, int, Observations, np.ndarray, bool]]:
    """Name, old runs, table, true losses (n, d), whether a source and not a domain is left out."""
    if (folder / "olmix").is_dir():
        runs = olmix(folder / "olmix")
        yield "Olmix 64", 48, runs, runs.losses[:, -1], True
        runs = topics(folder / "olmix/olmix_dclm24.csv", folder / "olmix/olmix_64_pools.json")
        yield "24 topics", 24, runs, runs.losses[:, -1], False
    for seed in range(MADE):
        yield (f"made {seed}", 16, *made(seed), False)
    if (folder / "regmix").is_dir():
        runs = regmix(folder / "regmix", "train", "1m")
        called = {
            simple(name): name for name in read_observations(PROOF / "tiny.csv", PROOF / "tiny_mixtures.csv").domains
        }
        own, measured = (tuple(called[simple(name)] for name in names) for names in (runs.domains, runs.loss_domains))
        runs = with_gaps(replace(runs, domains=own, loss_domains=measured))
        yield "RegMix 1M", 16, runs, runs.losses[:, -1], False
    runs = read_observations(PROOF / "tiny.csv", PROOF / "tiny_mixtures.csv")
    runs = with_gaps(replace(runs, pools=None, steps=runs.steps[-1:], losses=runs.losses[:, -1:]))
    yield "proof", 16, runs, runs.losses[:, -1], False


def topics(table: Path, pools: Path) -> Observations:
    """The swarm of 24 topics with the means of the families' metrics that all of its runs have."""
    rows, families = pl.read_csv(table), json.loads(pools.read_text(encoding="utf-8"))["families"]
    kept = {name: [one for one in own if f"bpb_{one}" in rows.columns] for name, own in families.items()}
    means = [rows.select(f"bpb_{one}" for one in own).to_numpy().mean(axis=1) for own in kept.values() if own]
    shares = [name for name in rows.columns if name.startswith("w_")]
    named = [name.removeprefix("w_") for name in shares]
    return from_wide(named, rows.select(shares).to_numpy(), [one for one in kept if kept[one]], np.stack(means, axis=1))


def made(seed: int) -> tuple[Observations, np.ndarray]:
    """300 runs of a made law in eight domains, each absent from 30 % of them, with its prior; and
    the losses without noise.
    """
    random, (truth, entropies) = np.random.default_rng([3, seed]), who_speak_alike(seed, 8)
    shares = random.gamma(1.0, size=(300, 8)) * (random.random((300, 8)) > 0.3) + 1e-9
    shares /= shares.sum(axis=1, keepdims=True)
    losses = truth(shares, [100_000])[:, 0]
    noisy = losses * np.exp(NOISE * random.standard_normal((300, 1)))
    names = [f"d{one}" for one in range(8)]
    return replace(from_wide(names, shares, names, noisy), gaps=entropies - np.diag(entropies)[:, None]), losses


def simple(name: str) -> str:
    return "".join(letter for letter in name.lower() if letter.isalnum())


def with_gaps(observed: Observations) -> Observations:
    return replace(observed, gaps=read_gaps(PROOF / "cross_entropy.csv", observed.domains, observed.loss_domains))


def fitted_to(observed: Observations, rows: np.ndarray, without: str | None = None, old: int = 0) -> dict:
    """The law of some rows, the first `old` of them without the loss on the domain `without`."""
    seen = observed.take(rows)
    if without in observed.loss_domains:
        losses = seen.losses.copy()
        losses[:old, :, observed.loss_domains.index(without)] = np.nan
        seen = replace(seen, losses=losses)
    return fit("transfer", seen)


def judged(law: dict, observed: Observations, truth: np.ndarray, rows: np.ndarray) -> tuple[float, float]:
    """Regret of the pick and error of the other runs' mean loss, %."""
    predicted, mean = predict_runs(law, observed)[:, -1].mean(axis=1), truth.mean(axis=1)
    others = np.setdiff1d(np.arange(len(mean)), rows)
    error = np.abs(predicted / mean - 1)[others].mean()
    return 100 * (mean[predicted.argmin()] / mean.min() - 1), 100 * error


def covered(law: dict, observed: Observations, truth: np.ndarray, share: np.ndarray, rows: np.ndarray) -> dict:
    """Errors of log losses where there is a `share` of what no run trained on, what a deviation of
    1 of log k moves them by, the deviation that was found; and the error without such a share.
    """
    errors = np.log(predict_runs(law, observed)[:, -1]) - np.log(truth)
    there, absent = share >= THERE, np.setdiff1d(np.flatnonzero(share <= 10 * ABSENT), rows)
    with patch.object(unseen, "LEAST", 0.0):
        own = unseen.deviations(law, observed.proportions[there])
    with patch.object(unseen, "LEAST", 1e6):
        one = unseen.deviations(law, observed.proportions[there]) / 1e6
    return {
        "errors": errors[there].tolist(),
        "moved": one.tolist(),
        "found": float(np.nanmedian(own / np.where(one > 0, one, np.nan))),
        "base": np.sqrt((errors[absent] ** 2).mean(axis=0)).tolist(),
        "mean_base": float(np.sqrt((errors[absent].mean(axis=1) ** 2).mean())),
    }


def floors(path: Path) -> None:
    """The share of errors in 90 % intervals by floor and table, of the mean of the log losses and
    of each.
    """
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    print("table, fits, deviation of log k found (median); % in 90 % intervals with the floors", *FLOORS)
    for name in dict.fromkeys(row["table"] for row in rows):
        ours = [row for row in rows if row["table"] == name]
        for what in ("mean", "each"):
            held = []
            for floor in FLOORS:
                shares = []
                for row in ours:
                    errors, moved, base = (np.array(row[key]) for key in ("errors", "moved", "base"))
                    if what == "mean":
                        errors, moved, base = errors.mean(axis=1), moved.mean(axis=1), row["mean_base"]
                    width = 1.645 * np.hypot(max(row["found"], floor) * moved, base)
                    shares.append((np.abs(errors) <= width).mean())
                held.append(100 * np.mean(shares))
            found = np.median([row["found"] for row in ours])
            print(f"{name:10} {what:5} {len(ours):3} {found:5.2f} ", *(f"{one:5.1f}" for one in held))


def main() -> None:
    parser = bench.parser(__doc__, numbers={"--draws": 4})
    parser.add_argument("data", type=Path, nargs="?")
    parser.add_argument("--domains", type=int, default=4, help="left out in a draw, one at a time")
    parser.add_argument("--tables", nargs="+", default=[], help="those that begin so")
    parser.add_argument("--coverage", type=Path, help="JSON lines to write")
    parser.add_argument("--floors", type=Path, help="to read instead")
    options = parser.parse_args()
    if options.floors:
        floors(options.floors)
        return
    found: dict[str, dict[str, list]] = {}
    for name, old_runs, observed, truth, sources in tables(options.data):
        if options.tables and not name.startswith(tuple(options.tables)):
            continue
        kind = name.split()[0] if name.startswith("made") else name
        ways = found.setdefault(kind, {})
        units = [one.split(":")[0] if sources else one for one in observed.domains]
        for draw in range(options.draws if kind == name else 1):
            random = np.random.default_rng(draw)
            every = random.permutation(len(observed.mixtures))
            for count in dict.fromkeys((*SCRATCH, *(old_runs + further for further in FURTHER))):
                law = fitted_to(observed, every[:count])
                ways.setdefault(f"scratch {count}", []).append(judged(law, observed, truth, every[:count]))
            left = 0
            for unit in random.permutation(list(dict.fromkeys(units))):
                share = observed.proportions[:, [one == unit for one in units]].sum(axis=1)
                old, further = every[share[every] <= ABSENT][:old_runs], every[share[every] >= THERE]
                if len(old) < old_runs or len(further) < max(FURTHER) + 4 or left == options.domains:
                    continue
                left += 1
                for count in FURTHER:
                    rows = np.concatenate([old, further[:count]])
                    law = fitted_to(observed, rows)
                    ways.setdefault(f"{old_runs} old + {count}", []).append(judged(law, observed, truth, rows))
                    if not count and options.coverage:
                        row = {"table": kind, "unit": str(unit)} | covered(law, observed, truth, share, rows)
                        with options.coverage.open("a", encoding="utf-8") as lines:
                            lines.write(json.dumps(row) + "\n")
                    if count > 1 and unit in observed.loss_domains:
                        law = fitted_to(observed, rows, str(unit), len(old))
                        ways.setdefault(f"hidden + {count}", []).append(judged(law, observed, truth, rows))
            if kind == name or name == f"made {MADE - 1}":
                shown(kind, ways, draw + 1)


def shown(kind: str, ways: dict[str, list], draws: int) -> None:
    """A line of each way after so many draws: mean regret, its standard error, mean error."""
    for way, rows in ways.items():
        means, error = np.mean(rows, axis=0), np.std(rows, axis=0)[0] / max(len(rows) - 1, 1) ** 0.5
        head = f"{kind:10} draws {draws} {way:14}"
        print(f"{head} regret {means[0]:.2f} +- {error:.2f} error {means[1]:.2f} of {len(rows)}", flush=True)


if __name__ == "__main__":
    main()
