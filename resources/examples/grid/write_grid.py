"""Write losses.csv, mixtures.csv and tokens.csv of 24 topics in 8 quality tiers: 64 runs that a known
law made.

nothing -> losses.csv (mixture, step, tokens, domain, loss), mixtures.csv (mixture, domain, proportion; a
cell that a run leaves out has no row), tokens.csv (domain, tokens), beside this script

Cells are called topic:tier. The loss on the held-out text of an area falls with the sum of
help(area, topic) quality(tier) share, to the power 0.6; a law of transfer, but not that which is
fitted. Runs keep the share that each topic has of the text, but for noise, as tiers alone are
chosen. Noise: exp(0.002 z).
"""

from pathlib import Path

import numpy as np
import polars as pl

FOLDER = Path(__file__).parent
TOPICS = [
    "art", "biology", "business", "chemistry", "cooking", "crime", "design", "education", "fashion",
    "finance", "games", "health", "history", "hobbies", "industry", "law", "literature",
    "mathematics", "physics", "politics", "religion", "software", "sports", "travel",
]  # fmt: skip
TIERS = 8  # 0 the worst
AREAS = {"exams": "biology chemistry mathematics physics health", "code": "software mathematics",
         "prose": "literature history art religion", "news": "politics business sports finance"}  # fmt: skip
RUNS, STEP = 64, 5000


def main() -> None:
    draw = np.random.default_rng(24)
    size = draw.dirichlet(np.full(len(TOPICS), 4.0)).round(3)
    size[-1] = 1 - size[:-1].sum()
    share_of_tier = np.array([0.2, 0.2, 0.16, 0.14, 0.12, 0.1, 0.05, 0.03])
    cells = [f"{topic}:{tier}" for topic in TOPICS for tier in range(TIERS)]
    tokens = np.outer(size, share_of_tier).ravel() * 200e9
    quality = np.linspace(0.4, 1.6, TIERS) - 0.15 * (np.arange(TIERS) == TIERS - 1)
    mixtures, losses = [], []
    for run in range(RUNS):
        own = draw.dirichlet(size * 60)  # of the topics
        kept = draw.random((len(TOPICS), TIERS)) < 0.25
        tiers = np.where(kept, draw.gamma(1.0, size=kept.shape), 0.0)
        tiers[~kept.any(axis=1), 3] = 1.0
        shares = np.round((own[:, None] * tiers / tiers.sum(axis=1, keepdims=True)).ravel(), 5)
        shares /= shares.sum()
        name = f"run{run + 1:02d}"
        mixtures += [(name, cell, f"{share:.6f}") for cell, share in zip(cells, shares, strict=True) if share > 0]
        for number, (area, near) in enumerate(AREAS.items()):
            help_of = np.array([2.5 if topic in near.split() else 0.3 + 0.03 * number for topic in TOPICS])
            worth = (np.outer(help_of, quality).ravel() * shares).sum()
            loss = (2.1 + 0.2 * number) * worth**-0.12 * np.exp(0.002 * draw.standard_normal())
            losses.append((name, STEP, round(STEP * 12e6), area, f"{loss:.4f}"))
    pl.DataFrame(mixtures, ["mixture", "domain", "proportion"], orient="row").write_csv(FOLDER / "mixtures.csv")
    pl.DataFrame(losses, ["mixture", "step", "tokens", "domain", "loss"], orient="row").write_csv(FOLDER / "losses.csv")
    pl.DataFrame(
        [(cell, round(one)) for cell, one in zip(cells, tokens, strict=True)], ["domain", "tokens"], orient="row"
    ).write_csv(FOLDER / "tokens.csv")
    print({f"{topic}:*": round(float(one), 3) for topic, one in zip(TOPICS, size, strict=True)})


if __name__ == "__main__":
    main()
