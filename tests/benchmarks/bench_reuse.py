"""What the runs of an earlier corpus are worth when a domain is added: one domain of a table left
out of 16 old runs, then 0, 1, 2 or 4 further runs that train on it, against fits from scratch.

Registered before the first run: the pick is the run of the whole table that the fitted law
`transfer` expects to have the least mean loss; regret is how far its mean loss lies above the
least, in per cent. Rivals: a fit from scratch to as many runs in total, and to four times the
further runs, all drawn at random. Rule: old runs and f further ones reach the goal where their mean
regret is at most that of 4 f runs from scratch, for f = 2 and 4. Old runs are drawn from those
with a share of at most 0.1 %, further ones from those with 2 % and more; the old runs' losses on
the domain's held-out text are known in one half of the rows (their weights were kept), and hidden
in the other. Every domain of a table with eight old runs is left out, once a draw.

python tests/benchmarks/bench_reuse.py path/with/all/data --draws 2
"""

import argparse
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2] / "workflow" / "scripts"))

from public_runs import regmix

from bimix.laws.fitted import fit, predict_runs
from bimix.observations.observations import Observations, read_observations
from bimix.observations.prior import read_gaps

PROOF = Path(__file__).resolve().parents[2] / "resources/observations/proof"
OLD, FURTHER, SCRATCH = 16, (0, 1, 2, 4), (4, 8, 16, 17, 18, 20)
ABSENT, THERE = 0.001, 0.02


def tables(folder: Path) -> Iterator[tuple[str, Observations]]:
    """The runs of the proof and RegMix', each with its prior from the proof's text."""
    observed = read_observations(PROOF / "tiny.csv", PROOF / "tiny_mixtures.csv")
    yield "proof", with_gaps(replace(observed, pools=None, steps=observed.steps[-1:], losses=observed.losses[:, -1:]))
    if (folder / "regmix").is_dir():
        runs = regmix(folder / "regmix", "train", "1m")
        called = {
            simple(name): name for name in read_observations(PROOF / "tiny.csv", PROOF / "tiny_mixtures.csv").domains
        }
        own, measured = (tuple(called[simple(name)] for name in names) for names in (runs.domains, runs.loss_domains))
        yield "RegMix 1M", with_gaps(replace(runs, domains=own, loss_domains=measured))


def simple(name: str) -> str:
    return "".join(letter for letter in name.lower() if letter.isalnum())


def with_gaps(observed: Observations) -> Observations:
    return replace(observed, gaps=read_gaps(PROOF / "cross_entropy.csv", observed.domains, observed.loss_domains))


def regret(observed: Observations, rows: np.ndarray, without: str | None = None, hidden: np.ndarray | None = None):
    """Regret and error, %, of the fit to some rows, some of them without the loss `without`."""
    seen = observed.take(rows)
    if hidden is not None and without in observed.loss_domains:
        losses = seen.losses.copy()
        losses[hidden, :, observed.loss_domains.index(without)] = np.nan
        seen = replace(seen, losses=losses)
    predicted, truth = predict_runs(fit("transfer", seen), observed)[:, -1], observed.losses[:, -1]
    mean = truth.mean(axis=1)
    others = np.setdiff1d(np.arange(len(truth)), rows)
    return 100 * (mean[predicted.mean(axis=1).argmin()] / mean.min() - 1), 100 * np.abs(
        predicted.mean(axis=1) / mean - 1
    )[others].mean()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--draws", type=int, default=2)
    parser.add_argument("--domains", type=int, default=99)
    options = parser.parse_args()
    for name, observed in tables(options.data):
        found: dict[str, list] = {}
        for draw in range(options.draws):
            random = np.random.default_rng(draw)
            every = random.permutation(len(observed.mixtures))
            for count in SCRATCH:
                found.setdefault(f"scratch {count}", []).append(regret(observed, every[:count]))
            for j, domain in list(enumerate(observed.domains))[: options.domains]:
                own = observed.proportions[every, j]
                old, further = every[own <= ABSENT], every[own >= THERE]
                if len(old) < OLD // 2 or len(further) < max(FURTHER):
                    continue
                old = old[:OLD]
                for count in FURTHER:
                    rows = np.concatenate([old, further[:count]])
                    found.setdefault(f"{len(old) // 16 * 16 or '<16'} old + {count}", []).append(regret(observed, rows))
                    if count > 1 and domain in observed.loss_domains:
                        hidden = np.arange(len(rows)) < len(old)
                        key = f"hidden + {count}"
                        found.setdefault(key, []).append(regret(observed, rows, domain, hidden))
        for way, rows in found.items():
            means, worst = np.mean(rows, axis=0), np.max(rows, axis=0)
            print(
                f"{name:10} {way:14} regret {means[0]:.2f} ({worst[0]:.2f}) error {means[1]:.2f} of {len(rows)}",
                flush=True,
            )


if __name__ == "__main__":
    main()
