"""What the trainings of registered proofs share: triples drawn by a hash, mixtures that are decided
once, and runs that are trained once.
"""

import json
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np
import polars as pl
import yaml
from answered import weights_of

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "workflow" / "scripts"))

from bimix.outputs import write_json, write_table
from bimix.tables import read_json, read_table

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = ROOT / "workflow" / "scripts"
CONFIG = ROOT / "resources/examples/proof/registered.yaml"
COLLECT = ROOT / "resources/observations/proof/collect_runs.py"


class Trainings:
    """The trainings of a folder with registration.yaml: mixtures/{mixture}.csv there are never changed
    once they are decided, and runs in the tables there are not trained again.

    `pools`: domain, tokens of a proxy; `results`: the dataset's folder of results.
    """

    def __init__(self, folder: Path, pools: Path, results: Path = Path("results/proof2")) -> None:
        self.folder, self.pools, self.results = folder, pools, results
        self.plan = yaml.safe_load((folder / "registration.yaml").read_text(encoding="utf-8"))
        self.first = self.plan["seeds"]["first"]
        self.step = str(self.plan["runs"]["tiny"]["steps"])
        self.run_tokens = self.plan["runs"]["tiny"]["tokens"]
        self.prior = results / "cross_entropy.csv"
        self.reference = results / f"mixtures/{self.plan['reference']}.json"

    def tokens(self) -> dict[str, float]:
        """The unique tokens of each domain that a proxy may read."""
        return dict(read_table(self.pools).select("domain", "tokens").iter_rows())

    def draw_triples(self, commit: str, letter: str, besides: Iterable[Sequence[str]]) -> dict[str, list[str]]:
        """{letter1: three wanted domains, ...}, none of `besides`, written to triples.json, as the
        registration says.
        """
        tokens, (least, most) = self.tokens(), self.plan["triples"]["share"]
        total = sum(tokens.values())
        eligible = sorted(name for name, own in tokens.items() if least <= own / total <= most)
        taken = [sorted(triple) for triple in besides]
        draw, drawn = np.random.default_rng(int(commit[:8], 16)), []
        while len(drawn) < self.plan["triples"]["count"]:
            triple = sorted(draw.choice(eligible, size=3, replace=False).tolist())
            if triple not in [*drawn, *taken]:
                drawn.append(triple)
        named = {f"{letter}{number}": triple for number, triple in enumerate(sorted(drawn), start=1)}
        write_json(self.folder / "triples.json", {"commit": commit, "eligible": eligible, "triples": named})
        return named

    def weights_of(self, wanted: Sequence[str], objective: str) -> dict[str, float]:
        """A part of the objective for the wanted domains together, the rest for the others."""
        return weights_of(list(self.tokens()), wanted, self.plan["objectives"][objective]["wanted"])

    # How mixtures are decided

    def decide(self, mixture: str, make: Callable[[Path], None]) -> None:
        """Write a mixture's table, if it is not decided yet: `make` writes the JSON it is given."""
        path = self.folder / "mixtures" / f"{mixture}.csv"
        if not path.is_file():
            made = self.results / "decided" / f"{mixture}.json"
            make(made)
            table = pl.DataFrame(sorted(read_json(made).items()), schema=["domain", "proportion"], orient="row")
            write_table(table, path)

    def by_hand(self, rule: str, wanted: Sequence[str], out: Path) -> None:
        """A rule by hand, as `12` or `8_kin`. Its epochs shrink with those at which the wanted domains
        would have 80 % of the run, where these are fewer than twelve.
        """
        from bimix.mixtures import by_hand as rules
        from bimix.mixtures.mixture import as_mixture, read_proportions
        from bimix.observations.prior import kin_weights

        tokens = self.tokens()
        domains = sorted(tokens)
        own, amounts = np.isin(domains, wanted), np.array([tokens[domain] for domain in domains])
        full = rules.MOST_WANTED * self.run_tokens / amounts[own].sum()
        epochs, _, rest = rule.partition("_")
        if rest == "kin":
            others = kin_weights(self.prior, domains, wanted, 0.5)
        elif rest == "uniform":
            others = np.ones(len(domains))
        else:
            shares = read_proportions(self.reference, domains)
            others = np.array([shares.get(domain, 0.0) for domain in domains])
        read = float(epochs) * min(1.0, full / 12)
        upper = float(self.plan["max_epochs"]) * amounts / self.run_tokens
        as_mixture(domains, rules.mix_by_epochs(amounts, self.run_tokens, own, read, others, None, upper)).write(out)

    def fit(self, name: str, law: str, runs: Mapping[Path, Sequence[str]]) -> Path:
        """The coefficients of a law fitted to the first seeds of runs {folder of tables: mixtures}."""
        out = self.results / f"decided/{name}.coefficients.json"
        losses, mixtures = self.tables(name, runs)
        prior = ["--prior", self.prior] if law == "transfer" else []
        script("fit_law.py", "--law", law, "--losses", losses, "--mixtures", mixtures, *prior, "--out", out)
        return out

    def optimum(self, coefficients: Path, weights: Mapping[str, float], cap: float, out: Path) -> None:
        """A law's optimum for a proxy, and {out}.optimum.json with what it promises."""
        script(
            "optimize_mixture.py", "--coefficients", coefficients, "--step", self.step, *self.asked(weights, cap),
            "--centre", self.reference, "--strengths", "2", "50", "--out", out,
            "--report", out.with_suffix(".optimum.json"),
        )  # fmt: skip

    def asked(self, weights: Mapping[str, float], cap: float) -> list:
        """The flags of an objective, the cap of epochs and the pools of a proxy."""
        own = ["--weights", json.dumps(weights)] if weights else []
        return [*own, "--max-epochs", cap, "--tokens", self.pools, "--run-tokens", self.run_tokens]

    def tables(self, name: str, runs: Mapping[Path, Sequence[str]]) -> tuple[Path, Path]:
        """Losses and mixtures of the first seeds of runs {folder of tables: mixtures}. Errors: a run is missing."""
        losses, shares = [], []
        for folder, mixtures in runs.items():
            own = read_table(folder / "tiny.csv").filter(seed=self.first).filter(pl.col("mixture").is_in(mixtures))
            if missing := set(mixtures) - set(own["mixture"]):
                sys.exit(f"no losses of {', '.join(sorted(missing))}")
            losses.append(own)
            shares.append(read_table(folder / "tiny_mixtures.csv").filter(pl.col("mixture").is_in(mixtures)))
        to = self.results / "decided" / name
        write_table(pl.concat(losses), to / "losses.csv")
        write_table(pl.concat(shares), to / "mixtures.csv")
        return to / "losses.csv", to / "mixtures.csv"

    # Runs

    def train(self, model: str, mixtures: Sequence[str], seeds: Sequence[int] = ()) -> None:
        """Train mixtures, with the first seed unless others are named, and collect the tables."""
        for seed in seeds or [self.first]:
            if left := [mixture for mixture in mixtures if not self.kept(model, mixture, seed)]:
                self.snakemake(*self.runs(model, left, seed))

    def kept(self, model: str, mixture: str, seed: int) -> bool:
        """Whether the tables have a whole run."""
        path = self.folder / f"{model}.csv"
        ends = {"mixture": mixture, "seed": seed, "step": self.plan["runs"][model]["steps"]}
        return path.is_file() and len(read_table(path).filter(**ends)) > 0

    def runs(self, model: str, mixtures: Sequence[str], seed: int) -> list[Path]:
        ending = "" if seed == self.first else f"@{seed}"
        return [self.results / f"runs/{model}/{mixture}{ending}/losses.parquet" for mixture in mixtures]

    def snakemake(self, *targets: Path) -> None:
        """Make the targets on one core, with the mixtures decided so far, and collect the tables."""
        known = self.folder / "mixtures.json"
        own = {path.stem: str(path) for path in sorted((self.folder / "mixtures").glob("*.csv"))}
        write_json(known, {"datasets": {"proof2": {"mixture_files": own} if own else {}}})
        command = ["snakemake", "--cores", "1", "--rerun-triggers", "mtime", "--configfile", CONFIG, known]
        subprocess.run([*command, "--", *targets], check=True, cwd=ROOT)
        self.collect()

    def collect(self) -> None:
        """The tables of all finished runs; rows of runs that are not among the results stay as they are."""
        if [*self.results.glob("runs/*/*/run.json"), *self.results.glob("swarm/*/state/*/*/run.json")]:
            subprocess.run([sys.executable, COLLECT, self.results, "--out", self.folder], check=True)


def write_joined(table: pl.DataFrame, path: Path, *key: str) -> None:
    """Write the table with the earlier rows of the file whose key is not in it, sorted by the key."""
    if path.is_file():
        earlier = pl.read_csv(path, schema=table.schema)
        table = pl.concat([table, earlier.join(table, on=key, how="anti")])
    write_table(table.sort(key), path)


def script(name: str, *flags) -> None:
    subprocess.run([sys.executable, SCRIPTS / name, *map(str, flags)], check=True)
