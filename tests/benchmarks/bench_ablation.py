"""Measure what each part of `transfer` earns (no test: run it by hand).

python tests/benchmarks/bench_ablation.py FOLDER [--without ...] [--counts 8 16 32] [--draws 4]
-> standard output; FOLDER holds regmix/, mixinglaws/ and olmix/, the proof is that of
resources/observations. Each draw fits some runs and predicts the others at the last step. Of each
part: its error without it over that with it, for each table and number of runs, and the geometric
mean of the cells with its standard error, the least and the worst cell. Known laws are those of tests/laws/known.py.
"""

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from unittest.mock import patch

import bench
import numpy as np
from laws.known import STEPS, mixtures, observe, with_transfer
from public_tables import mixing_laws, olmix, regmix

from bimix.laws import fitted as laws
from bimix.laws import transfer
from bimix.observations.observations import Observations, read_observations
from bimix.transfer import choice, mixing

OWN = bench.ROOT / "resources" / "observations"
SEARCHES = ("c_", "t1_", "t2_", "t3_", "t4_")
PROOFS = {"first proof": "proof/tiny_first.csv", "second proof": "proof2/tiny.csv"}
SAVED = (10_000, 13_000, 14_000, 16_000, 24_000, 27_000, 30_000)  # of Ye et al.'s runs
MOST_NEW = 128


@dataclass(frozen=True)
class Part:
    """What a fit without a part has in its place."""

    constants: dict = field(default_factory=dict)  # {(module, name): value}
    bare: Callable[[Observations], Observations] = lambda runs: runs
    tables: tuple[str, ...] = ("SlimPajama 70M", "SlimPajama 160M", "3Mix 410M", "RegMix 1M", "first proof", "known")
    counts: tuple[int, ...] = ()  # of runs, where others than all parts have


SEVERAL_STEPS = ("SlimPajama 70M", "SlimPajama 160M", "first proof")
PARTS = {
    "gamma": Part({(mixing, "MEAN_LOGIT_G"): 20.0, (mixing, "SHRINK_LOGIT_G"): 1e8, (mixing, "HOLD_MEANS"): 1e8}),
    "groups": Part(bare=lambda runs: replace(runs, sources={}), tables=("Olmix, 64 domains",), counts=(32,)),
    "prior": Part(bare=lambda runs: replace(runs, gaps=None), tables=("first proof",)),
    "effects by step": Part({(transfer, "EFFECT_SPREAD"): 1e-6}, tables=SEVERAL_STEPS),
    # with as many folds as with it
    "second term": Part(
        {(choice, "RUNS_FOR_TWO_TERMS"): np.inf, (choice, "FOLDS"): choice.FOLDS_OF_PLENTY},
        tables=("RegMix 1M",),
        counts=(200, 340),
    ),
    "hold of alpha": Part({(mixing, "HOLD_LOG_A"): mixing.HOLD_MEANS}),
    "own ridges": Part({(choice, "FEW_RUNS_BY_DOMAIN"): np.inf}),
    "error of all": Part({(choice, "BORROWED"): 0.0}),
    "signed term": Part({(choice, "COST"): np.inf}),
    "a of many domains": Part(  # registrations/mean_of_alpha.yaml
        {(mixing, "MANY_DOMAINS"): np.inf},
        tables=(
            "RegMix 1M",
            "RegMix 60M",
            "RegMix 1B",
            "Olmix, 64 domains",
            "Olmix, 24 topics",
            *(f"{proof}{prior}" for proof in PROOFS for prior in ("", ", no prior")),
        ),
    ),
    "fitted means": Part({(mixing, "HOLD_LOG_A"): 1e8, (mixing, "HOLD_MEANS"): 1e8}),
}


def tables(folder: Path) -> dict[str, Observations]:
    """The public runs at every step that is read of them."""
    found = {"RegMix 1M": regmix(folder / "regmix", "train", "1m"), "Olmix, 64 domains": olmix(folder / "olmix")}
    found |= {f"RegMix {size.upper()}": regmix(folder / "regmix", "test", size) for size in ("60m", "1B")}
    found["Olmix, 24 topics"] = olmix(folder / "olmix", "dclm", "olmix_dclm24")
    for size in ("70M", "160M"):
        each = [mixing_laws(folder / "mixinglaws", "RedPajama", size, step, each=True, proposed=True) for step in SAVED]
        losses = np.concatenate([runs.losses for runs in each], axis=1)
        found[f"SlimPajama {size}"] = replace(each[0], steps=np.array(SAVED), losses=losses)
    found["3Mix 410M"] = mixing_laws(folder / "mixinglaws", "3Mix", "410M")
    for name, table in PROOFS.items():
        losses = OWN / table
        prior = OWN / "proof" / "cross_entropy.csv"  # both have the same text
        proof = read_observations(losses, losses.with_name("tiny_mixtures.csv"), prior)
        # of the second its swarm alone: c_ and t1_ to t4_ are of its searches
        proof = proof.take([row for row, one in enumerate(proof.mixtures) if not one.startswith(SEARCHES)])
        proof = proof.take(np.flatnonzero(np.isfinite(proof.losses[:, -1]).all(axis=1)))
        found[name] = replace(proof, pools=None, tokens=None)
        found[f"{name}, no prior"] = replace(found[name], gaps=None)
    return found


def drawn(name: str, runs: Observations | None, count: int, draw: int) -> tuple[Observations, np.ndarray, np.ndarray]:
    """Runs to fit, and others' mixtures and losses at the last step."""
    if runs is None:
        truth, new = with_transfer(draw), mixtures(draw + 500, 200)
        return observe(truth, mixtures(draw, count), STEPS[-1:], 0.003, draw), new, truth(new, STEPS[-1:])[:, 0]
    order = np.random.default_rng([draw, count]).permutation(len(runs.mixtures))
    new = runs.take(order[count:][-MOST_NEW:])
    return runs.take(order[:count]), new.proportions, new.losses[:, -1]


def error(part: Part, runs: Observations, shares: np.ndarray, truth: np.ndarray) -> float:
    """Mean relative error (%) of a fit without a part."""
    with ExitStack() as without:
        for (module, name), value in part.constants.items():
            without.enter_context(patch.object(module, name, value))
        fitted = laws.fit("transfer", part.bare(runs))
    return float(100 * np.nanmean(np.abs(laws.predict(fitted, shares, runs.steps[-1:])[:, 0] / truth - 1)))


def main(argv: list[str] | None = None) -> None:
    parser = bench.parser(__doc__, "folder", numbers={"--draws": 4})
    parser.add_argument("--without", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--tables", nargs="+", help="of these alone")
    parser.add_argument("--counts", nargs="+", type=int, default=[8, 16, 32], help="of runs that are fitted")
    parser.add_argument("--first", type=int, default=0, help="draw")
    options = parser.parse_args(argv)
    sets, whole = tables(options.folder) | {"known": None}, {}
    draws = range(options.first, options.first + options.draws)
    for name in options.without:
        part, cells = PARTS[name], {"public": [], "known": []}
        for table in (one for one in part.tables if one in (options.tables or part.tables)):
            for count in part.counts or options.counts:
                if sets[table] is not None and count > len(sets[table].mixtures) - 4:
                    continue
                logs = []
                for draw in draws:
                    one = drawn(table, sets[table], count, draw)
                    if (table, count, draw) not in whole:
                        whole[table, count, draw] = error(Part(), *one)
                    logs.append(np.log(error(part, *one) / whole[table, count, draw]))
                cells["known" if table == "known" else "public"].append(np.mean(logs))
                kept = np.mean([whole[table, count, draw] for draw in draws])
                print(f"{name:24s} {table:18s} {count:3d}  {kept:5.2f} %  {np.exp(np.mean(logs)):.3f}", flush=True)
        for kind, own in cells.items():
            if own:
                deviation = np.std(own, ddof=1) / len(own) ** 0.5 if len(own) > 1 else np.nan
                print(f"{name:24s} {kind}, {len(own)} cells: {np.exp(np.mean(own)):.3f} +- {deviation:.3f}", end="")
                print(f", least {np.exp(min(own)):.3f}, worst {np.exp(max(own)):.3f}", flush=True)


if __name__ == "__main__":
    main()
