"""Write losses.csv and mixtures.csv, as another training stack would: ten
runs that a known law made.

nothing -> losses.csv (mixture, step, domain, loss), mixtures.csv (mixture, domain,
proportion), beside this script

The law of domain i at proportion r and step s is r^-alpha (B / s^beta + C), in nats per token. Each
run's losses are multiplied by exp(0.002 z), with one standard normal z a domain: the noise is
shared along a run, as between two seeds.
"""

from pathlib import Path

import numpy as np
import polars as pl

FOLDER = Path(__file__).parent
STEPS = [2000, 4000, 6000, 8000, 10000]
RUNS = 10
NOISE = 0.002
# domain: alpha, B, beta, C
LAW = {
    "books": (0.06, 30.0, 0.45, 2.4),
    "code": (0.16, 25.0, 0.40, 0.9),
    "papers": (0.10, 20.0, 0.40, 1.5),
    "web": (0.04, 40.0, 0.45, 2.6),
}


def main() -> None:
    draw = np.random.default_rng(7)
    proportions = draw.dirichlet(np.full(len(LAW), 3.0), RUNS).round(3)
    proportions[:, -1] = 1 - proportions[:, :-1].sum(axis=1)  # rounded rows sum to 1
    noise = np.exp(NOISE * draw.standard_normal((RUNS, len(LAW))))
    mixtures, losses = [], []
    for run in range(RUNS):
        name = f"run{run + 1:02d}"
        for k, (domain, (alpha, scale, beta, floor)) in enumerate(LAW.items()):
            mixtures.append((name, domain, f"{proportions[run, k]:.3f}"))
            for step in STEPS:
                loss = proportions[run, k] ** -alpha * (scale / step**beta + floor) * noise[run, k]
                losses.append((name, step, domain, f"{loss:.4f}"))
    pl.DataFrame(mixtures, ["mixture", "domain", "proportion"], orient="row").write_csv(FOLDER / "mixtures.csv")
    pl.DataFrame(losses, ["mixture", "step", "domain", "loss"], orient="row").write_csv(FOLDER / "losses.csv")


if __name__ == "__main__":
    main()
