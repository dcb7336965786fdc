"""Measure what rounds of a search find, beside one shot of the law with as many runs (no test: run
it by hand).

Registered on 2026-11-23, before the runs of `rows.csv` were made. Question: which start, number a
round and second voice find the best run after 8 and 12. Rivals: the ways below. Default: the way
with the least regret, relative to the mean over ways, on `regmix` and `made 0.3 %` by random and
hand starts; another than `voices` only if it is better by more than a standard error of the paired
differences. All other tables are reported. Ways that were not taken, MARINER and kriging of the
runs as second voices and four mixtures a round, are in the history of this file.

python tests/benchmarks/bench_rounds.py folder [--tables regmix --draws 10] -> a table on standard
output; `folder` holds regmix/ and olmix/ (public runs), and `--kept` the runs of the proof. Regret
is by how much, in per cent, the best measured run is above the best there is: of the mixtures of
a table, or of a made law at its optimum, without noise. Of each table the mean and the worst of the
draws at each number of runs.

regmix   488 of 512 runs of 1M models, three of 13 losses wanted
families 127 runs on 24 topics, the mean of the means of three families of benchmarks wanted
olmix_64 512 runs of 30M models on 64 domains, the mean of the means of three families wanted
proof    54 proxies of 22 domains, three of them wanted
made     five domains, powers of exponentials, three wanted losses, noise 0.1, 0.3, 1 %

start    `random` 4 runs; `hand` random ones and the rule without runs (of the table the largest sum
         of log(share + 0.003), of a made law 0.3 each of the wanted)
way      shot: random runs alone, then the law's pick. law: rounds of the law alone, uncorrected.
         kriged: corrected. voices: law and shares by turns. two: two a round, by both voices; pair: by
         the law alone; guarded: kriged, and away from the best run after two rounds without a better one
worse    draws in which the answer is above the rule without runs by more than 0.3 % or the noise

With --outside SEED TRIPLES DRAWS instead: RegMix' 512 mixtures by propose_round.py --candidates
itself, triples of losses drawn by the seed, four random runs, the rule and three rounds.
"""

import contextlib
import io
import json
import re
import tempfile
import time
from collections import defaultdict
from dataclasses import dataclass, replace
from pathlib import Path

import bench
import numpy as np
import polars as pl
from public_tables import from_wide, olmix, regmix

import propose_round
from bimix.laws import fitted as laws
from bimix.mixtures.by_hand import SHARE_FLOOR
from bimix.observations.observations import Observations, read_observations
from bimix.optimum.goal import Goal
from bimix.optimum.objective import Objective
from bimix.search.rounds import Search, stuck

# Mixtures a round, whether the law is corrected, and whether both voices propose; `guarded` also looks away from
# the best run after two rounds without a better one.
WAYS = {
    "law": (1, False, False),
    "kriged": (1, True, False),
    "voices": (1, True, True),
    "two": (2, True, True),
    "pair": (2, True, False),
    "guarded": (1, True, False),
}
PROPOSED = {"losses": "losses", "mixtures": "mixtures", "candidates": "pool", "out": "next"}
TABLE_NOISE = 0.003  # of a run in a table, where none was repeated
FAMILIES = {
    "math": "minerva",
    "code": "codex|mbpp|humaneval|multipl|ds1000|deepseek",
    "qa": "arc|mmlu|hellaswag|piqa|qa",
}


@dataclass
class Case:
    """A truth: losses (n, d) of mixtures (n, m), the candidates where it is a table."""

    observed: Observations | None
    domains: tuple[str, ...]
    names: tuple[str, ...]
    weights: dict[str, float]
    losses: object
    noise: float
    least: float

    def measured(self, shares, draw) -> np.ndarray:
        losses = self.losses(shares)
        return losses * np.exp(self.noise * draw.standard_normal((len(losses), 1)))

    def level(self, shares) -> np.ndarray:
        """The objective (n,) without noise."""
        target = np.array([self.weights.get(name, 0.0) for name in self.names])
        return self.losses(shares) @ target / target.sum()

    def regret(self, shares) -> float:
        return 100 * float(self.level(shares).min() / self.least - 1)


def of_table(runs: Observations, weights: dict[str, float]) -> Case:
    """A table, of which each mixture is known by its shares."""
    rows = {one.tobytes(): row for row, one in enumerate(runs.proportions)}
    ends = runs.losses[:, -1]
    case = Case(
        runs,
        runs.domains,
        runs.loss_domains,
        weights,
        lambda shares: ends[[rows[one.tobytes()] for one in shares]],
        0.0,
        0.0,
    )
    return replace(case, least=float(case.level(runs.proportions).min()))


def regmix_case(folder: Path, draw, number: int) -> Case:
    runs = regmix(folder / "regmix", "train", "1m")
    runs = runs.take(draw.choice(len(runs.mixtures), 488, replace=False))
    wanted = draw.choice(len(runs.loss_domains), 3, replace=False)
    return of_table(runs, {runs.loss_domains[one]: 1.0 for one in wanted})


def families_case(folder: Path, draw, number: int) -> Case:
    """The mean of the means of families of benchmarks."""
    table = pl.read_csv(folder / "olmix/olmix_dclm24.csv")
    shares = [name for name in table.columns if name.startswith("w_")]
    members = [
        [name for name in table.columns if re.search(f"^bpb_.*({family})", name) and table[name].null_count() == 0]
        for family in FAMILIES.values()
    ]
    own = table.select(list(dict.fromkeys(name for one in members for name in one)))
    weights = {name: sum((name in one) / len(one) for one in members) for name in own.columns}
    names = [name.removeprefix("w_") for name in shares]
    return of_table(from_wide(names, table.select(shares).to_numpy(), own.columns, own.to_numpy()), weights)


def olmix_case(folder: Path, draw, number: int) -> Case:
    runs = olmix(folder / "olmix")
    return of_table(runs, dict.fromkeys(runs.loss_domains, 1.0))


def proof_case(folder: Path, draw, number: int) -> Case:
    """The proxies of the proof, first seeds, as resources/observations/proof keeps them."""
    runs = read_observations(folder / "tiny_first.csv", folder / "tiny_mixtures.csv")
    runs = runs.take(np.flatnonzero(np.isfinite(runs.losses[:, -1]).all(axis=1)))
    wanted = draw.choice(len(runs.domains), 3, replace=False)
    return of_table(runs, {runs.domains[one]: 1.0 for one in wanted})


def made_case(noise: float):
    def case(_: Path, draw, number: int) -> Case:
        m = 5
        helps = np.where(np.eye(m) > 0, draw.uniform(1.5, 3.0, (m, m)), draw.gamma(0.7, 0.5, (m, m)))
        floor, height = draw.uniform(0.8, 2.6, m), draw.uniform(1.2, 2.3, m)
        names = tuple("abcde")

        def losses(shares):
            return floor + height * np.exp(-(np.maximum(shares, 0) ** 0.55) @ helps.T)

        wanted = {names[one]: 1.0 for one in draw.choice(m, 3, replace=False)}
        made = Case(None, names, names, wanted, losses, noise, 0.0)
        many = np.random.default_rng(0).dirichlet(np.full(m, 0.7), 200_000)
        best = many[made.level(many).argsort()[:200]]
        for spread in (0.05, 0.02, 0.005):  # the optimum, by draws ever nearer to the best
            near = np.random.default_rng(1).normal(0, spread, (40, len(best), m)) + best
            near = np.maximum(near, 0).reshape(-1, m)
            best = np.concatenate([best, near / near.sum(axis=1, keepdims=True)])
            best = best[made.level(best).argsort()[:200]]
        return replace(made, least=float(made.level(best).min()))

    return case


TABLES = {
    "regmix": regmix_case,
    "families": families_case,
    "olmix_64": olmix_case,
    "proof": proof_case,
} | {f"made {100 * noise:g} %": made_case(noise) for noise in (0.001, 0.003, 0.01)}


def start_of(case: Case, start: str, count: int, draw) -> np.ndarray:
    """Shares (count, m) of the first runs."""
    offered = case.observed.proportions if case.observed else draw.dirichlet(np.ones(len(case.domains)), 300)
    random, rule = offered[draw.choice(len(offered), count, replace=False)], rule_of(case)
    if start == "random" or rule is None:
        return random
    together = np.concatenate([random[:-1], rule[None]])
    return together if case.observed is None else np.unique(together, axis=0)


def rule_of(case: Case) -> np.ndarray | None:
    """The rule without runs (m,); None where no domain is wanted, as with benchmarks."""
    target = np.array([case.weights.get(name, 0.0) for name in case.domains])
    if case.observed is None:
        return 0.9 * target / target.sum() + 0.1 / len(target)
    offered = case.observed.proportions
    return offered[int((np.log(offered + SHARE_FLOOR) @ target).argmax())] if target.any() else None


def search_of(case: Case, shares, losses, corrected: bool) -> Search:
    m = len(case.domains)
    names = tuple(map(str, range(len(shares))))
    runs = Observations(names, case.domains, np.array([1]), case.names, shares, losses[:, None])
    fitted = laws.fit("transfer", runs)
    goal = Goal(fitted, 1, Objective(weights=case.weights))
    search = Search(goal, fitted, runs, np.zeros(m), np.ones(m), case.noise or None)
    if not corrected:
        search.law.kriged = replace(search.law.kriged, weights=np.zeros(len(shares)))
    return search


def rounds(case: Case, start: str, way: str, first: int, counts: list[int], draw) -> dict[int, float]:
    """Regrets by numbers of runs."""
    of, corrected, both = WAYS.get(way, (1, False, False))
    shares = start_of(case, start, counts[-1] - 1 if way == "shot" else first, draw)
    losses, found = case.measured(shares, draw), {}
    offered = case.observed.proportions if case.observed else None
    if way == "shot":
        for count in counts:
            search = search_of(case, shares[: count - 1], losses[: count - 1], corrected=False)
            pick = search.next(0, offered).shares
            found[count] = case.regret(pick[None])
        return found
    turn, made = 0, []
    while len(shares) < counts[-1]:
        search = search_of(case, shares, losses, corrected)
        others = np.zeros((0, len(case.domains)))
        for place in range(min(of, min(one for one in counts if one > len(shares)) - len(shares))):
            far = way == "guarded" and stuck(str(search.best), made)
            pick = search.next(turn + place if both else 0, offered, others, far).shares
            others = np.concatenate([others, pick[None]])
        turn += 1
        made.append([str(len(shares) + place) for place in range(len(others))])
        shares, losses = np.concatenate([shares, others]), np.concatenate([losses, case.measured(others, draw)])
        if len(shares) in counts:  # the answer is the best by its posterior, which noise may fool
            after = search_of(case, shares, losses, corrected=True)
            answer = shares[[after.best]] if case.noise else shares
            found[len(shares)] = case.regret(answer)
    return found


def outside(folder: Path, seed: int, triples: int, draws: int) -> None:
    """A line for each search: regrets of all its runs, of the start, of the rule alone, and of
    eight random runs.
    """
    runs = regmix(folder / "regmix", "train", "1m")
    ends, domains, names = runs.losses[:, -1], list(runs.domains), list(runs.loss_domains)
    drawn, found = np.random.default_rng(seed), []
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)

        def written(file: str, rows, values, columns) -> None:
            of_rows = [(f"r{row}", one, float(values[row, i])) for row in rows for i, one in enumerate(columns)]
            number = "loss" if file == "losses" else "proportion"
            table = pl.DataFrame(of_rows, ["mixture", "domain", number], orient="row")
            table = table.with_columns(step=pl.lit(1000)) if file == "losses" else table
            table.write_csv(place / f"{file}.csv")

        written("pool", range(len(ends)), runs.proportions, domains)
        files = [f"--{flag}={place}/{file}.csv" for flag, file in PROPOSED.items()]
        for wanted in [drawn.choice(len(names), 3, replace=False) for _ in range(triples)]:
            weights = {names[one]: 1.0 for one in wanted}
            level, target = ends[:, wanted].mean(axis=1), np.array([weights.get(one, 0.0) for one in domains])
            for number in range(draws):
                draw = np.random.default_rng([seed, len(found) // draws, number])
                rows = draw.choice(len(ends), 4, replace=False).tolist()
                score = np.log(runs.proportions + SHARE_FLOOR) @ target
                score[rows] = -np.inf
                rows.append(rule := int(score.argmax()))
                for _ in range(3):
                    written("mixtures", rows, runs.proportions, domains)
                    written("losses", rows, ends, names)
                    with contextlib.redirect_stdout(io.StringIO()):
                        propose_round.main([*files, "--weights", json.dumps(weights)])
                    rows.append(int(pl.read_csv(place / "next.csv")["mixture"][0][1:]))
                random = draw.choice(len(ends), 8, replace=False)
                regrets = [100 * (level[own].min() / level.min() - 1) for own in (rows, rows[:5], [rule], random)]
                found.append(regrets)
                print(*weights, *(f"{one:.3f}" for one in regrets), flush=True)
    means, worst = np.mean(found, axis=0), np.max(found, axis=0)
    for what, mean, most in zip(("search", "start", "rule", "eight random"), means, worst, strict=True):
        print(f"{what}: {mean:.3f} (worst {most:.3f})")


def main(argv=None) -> None:
    parser = bench.parser(__doc__, "folder", numbers={"--draws": 8, "--seed": 0, "--first": 4, "--counts": [8, 12]})
    parser.add_argument("--tables", nargs="+", default=list(TABLES), choices=list(TABLES))
    kept = bench.ROOT / "resources/observations/proof"
    parser.add_argument("--kept", type=Path, default=kept, help="of the proof's runs")
    parser.add_argument("--starts", nargs="+", default=["random", "hand"])
    parser.add_argument("--ways", nargs="+", default=["shot", *WAYS], choices=["shot", *WAYS])
    parser.add_argument("--rows", type=Path, help="a csv to which each draw is added")
    parser.add_argument("--outside", nargs=3, type=int, metavar=("SEED", "TRIPLES", "DRAWS"))
    options = parser.parse_args(argv)
    if options.outside:
        outside(options.folder, *options.outside)
        return
    print("| table | start | way | " + " | ".join(f"{count} runs | worse" for count in options.counts) + " | CPU s |")
    for table in options.tables:
        for start in options.starts:
            for way in options.ways:
                if way == "shot" and start == "hand":
                    continue
                began, found, worse = time.process_time(), defaultdict(list), defaultdict(int)
                for number in range(options.draws):
                    draw = np.random.default_rng([options.seed, number])
                    case = TABLES[table](options.kept if table == "proof" else options.folder, draw, number)
                    rule = rule_of(case)
                    most = np.inf if rule is None else case.regret(rule[None]) + 100 * (case.noise or TABLE_NOISE)
                    for count, one in rounds(case, start, way, options.first, options.counts, draw).items():
                        found[count].append(one)
                        worse[count] += one > most
                        if options.rows:
                            with options.rows.open("a") as file:
                                file.write(f"{table},{start},{way},{options.seed},{number},{count},{one:.5f}\n")
                cells = " | ".join(
                    f"{np.mean(found[one]):.3f} ({np.max(found[one]):.3f}) | {worse[one]}" for one in options.counts
                )
                print(f"| {table} | {start} | {way} | {cells} | {time.process_time() - began:.0f} |", flush=True)


if __name__ == "__main__":
    main()
