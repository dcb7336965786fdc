"""Answer the registered questions from the kept tables, without training.

python resources/observations/proof2/answer_proof.py [--folder F] [--page docs/proof.md]

registration.yaml, triples.json, {triple}_answers.json, c_answers.json, tiny.csv, larger.csv, runs.csv,
rounds.csv -> answers/*.csv beside them, most of them tables of docs/proof.md: primary, secondary, mixtures
(each triple's, with price, gain and what the other domains lose; the page has the chosen ones and one shot
of `transfer`), plain, larger, bounds. With --page, these tables and the sentences made of them between the page's marks.
Blocks that have not ended are left out.
"""

import re
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl
import yaml
from scipy.stats import spearmanr

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import answered
from answered import LEVEL, WORTH, bounds_by_t, holm, interval, log_mean, markdown, percent, wrapped

from bimix.judge.noise import Noise
from bimix.laws import fitted as laws
from bimix.observations.observations import observations
from bimix.optimum.objective import Objective
from bimix.outputs import write_table
from bimix.tables import read_json, read_table

HERE = Path(__file__).resolve().parent
PLAN = yaml.safe_load((HERE / "registration.yaml").read_text(encoding="utf-8"))
REFERENCE, FIRST, FRESH = PLAN["reference"], PLAN["seeds"]["first"], PLAN["seeds"]["fresh"]
CALLED = {
    "hand_I": "best rule, I",
    "hand_II": "best rule, II",
    "I": "answer of the search, I",
    "II": "answer of the search, II",
    "rival": "best rival",
    "transfer": "`transfer`, 64 draws",
}
MARGIN, VOCABULARY = 0.05, 4096  # of the bounds on each domain's loss; the tokenizer's ids


def main() -> None:
    options = answered.flags(__doc__, HERE).parse_args()
    proof = read_proof(options.folder)
    tables = answers(proof)
    for name, table in tables.items():
        write_table(table, options.folder / "answers" / f"{name}.csv")
    answered.report(options.page, parts_of(proof, tables), sentences(proof, tables))


@dataclass(frozen=True)
class Proof:
    """The kept tables: `losses` {model: mixture, seed, domain, loss at the last step}, `shares` of the
    proxies' mixtures (None: not there), `curves` of the proxies at all steps, `costs` (model, mixture,
    seed, flops, seconds), `rounds` (search, round, mixture, promised), and for each triple whose
    searches have ended its domains and what was chosen.
    """

    losses: dict[str, pl.DataFrame]
    shares: pl.DataFrame | None
    curves: pl.DataFrame
    costs: pl.DataFrame
    rounds: pl.DataFrame
    triples: dict[str, tuple[str, ...]]
    chosen: dict[str, dict[str, str]]

    def objective(self, model: str, weights: dict[str, float] | None, mixtures=None) -> dict[str, dict[int, float]]:
        """{mixture: {seed: its objective at the last step}}; without weights the plain mean."""
        table = self.losses[model]
        if mixtures is not None:
            table = table.filter(pl.col("mixture").is_in(list(mixtures)))
        return answered.objective(table, weights)

    def fresh(self, mixture: str, weights: dict[str, float] | None) -> float:
        """The log of a proxy's mean objective over the fresh seeds."""
        own = self.objective("tiny", weights, [mixture]).get(mixture, {})
        missing = [str(seed) for seed in FRESH if seed not in own]
        if missing:
            sys.exit(f"{mixture} has no run of seed {' and '.join(missing)}")
        return log_mean(own, FRESH)

    def first(self, mixture: str, weights: dict[str, float] | None) -> float:
        """The objective of a proxy at the first seed."""
        return self.objective("tiny", weights, [mixture])[mixture][FIRST]

    def weights(self, triple: str, objective: str) -> dict[str, float]:
        """The weights of objective I or II of a triple; they sum to one."""
        return answered.weights_of(self.domains, self.triples[triple], PLAN["objectives"][objective]["wanted"])

    @property
    def domains(self) -> list[str]:
        return sorted(self.losses["tiny"]["domain"].unique())

    def noise(self, weights: dict[str, float] | None, model="tiny") -> tuple[list[str], np.ndarray, Noise | None]:
        """Names of all runs of a model, their log objectives without the effects of seeds, and the noise."""
        return answered.noise(self.objective(model, weights))

    def effects(self, model: str, weights: dict[str, float], mixtures: list[str]) -> list[float]:
        """The log objectives of some mixtures over the reference's, without the effects of seeds."""
        names, values, _ = self.noise(weights, model)
        level = dict(zip(names, values.tolist(), strict=True))
        return [level[name] - level[REFERENCE] for name in mixtures]

    def paired(self, weights: dict[str, float]) -> dict[tuple[str, int], float]:
        """{(mixture, seed): a proxy's log objective less the effect of its seed}."""
        runs, (names, values, _) = self.objective("tiny", weights), self.noise(weights)
        level = dict(zip(names, values.tolist(), strict=True))
        logs = {(name, seed): float(np.log(own)) for name, of in runs.items() for seed, own in of.items()}
        effects = {
            seed: np.mean([own - level[run[0]] for run, own in logs.items() if run[1] == seed]) for _, seed in logs
        }
        return {run: own - float(effects[run[1]]) for run, own in logs.items()}


def read_proof(folder: Path) -> Proof:
    """The tables of a folder, at the last step of each model. A triple counts once its answers are
    there; its best rival may come later.
    """
    losses = {}
    for model in ("tiny", "larger"):
        if (folder / f"{model}.csv").is_file():
            table = read_table(folder / f"{model}.csv")
            losses[model] = table.filter(pl.col("step") == PLAN["runs"][model]["steps"])
    triples, chosen = {}, {}
    if (folder / "triples.json").is_file():
        triples = read_json(folder / "triples.json")["triples"]
    for name in [*triples, "c"]:
        if (folder / f"{name}_answers.json").is_file():
            chosen[name] = read_json(folder / f"{name}_answers.json")
    rounds = pl.DataFrame(schema={"search": pl.String, "round": pl.Int64, "mixture": pl.String, "promised": pl.Float64})
    if (folder / "rounds.csv").is_file():
        rounds = read_table(folder / "rounds.csv")
    shares = read_table(folder / "tiny_mixtures.csv") if (folder / "tiny_mixtures.csv").is_file() else None
    ended = {name: tuple(domains) for name, domains in triples.items() if name in chosen}
    curves, costs = read_table(folder / "tiny.csv"), read_table(folder / "runs.csv")
    return Proof(losses, shares, curves, costs, rounds, ended, chosen)


def answers(proof: Proof) -> dict[str, pl.DataFrame]:
    """{name: table} of the page."""
    tables = {"primary": primary(proof), "mixtures": by_mixture(proof), "secondary": secondary(proof)}
    if "c" in proof.chosen:
        tables["plain"] = plain(proof)
    if "larger" in proof.losses and proof.triples and larger_has_ended(proof):
        tables["larger"] = larger(proof)
        if proof.shares is not None:
            tables["bounds"] = bounds(proof)
    return {name: table for name, table in tables.items() if len(table)}


def differences(proof: Proof, objective: str, one: str, other: str) -> list[float]:
    """For each triple, the log objective of one chosen mixture less that of another, at fresh seeds."""
    return [
        proof.fresh(proof.chosen[triple][one], weights) - proof.fresh(proof.chosen[triple][other], weights)
        for triple in proof.triples
        for weights in [proof.weights(triple, objective)]
    ]


def primary(proof: Proof) -> pl.DataFrame:
    """objective, triples, mean of D, its one-sided 95 % bounds (t), p of D < 0 by Holm's order of
    both objectives, and the decision. Fewer triples than registered decide nothing.
    """
    rows, values = [], {name: differences(proof, name, name, f"hand_{name}") for name in PLAN["objectives"]}
    tests = {name: bounds_by_t(of) for name, of in values.items() if len(of) > 1}
    adjusted = holm({name: p for name, (_, _, p) in tests.items()})
    for name, (low, high, _) in tests.items():
        mean, complete = float(np.mean(values[name])), len(values[name]) == PLAN["triples"]["count"]
        decision = decide(mean, low, high, adjusted[name]) if complete else "not all triples have ended"
        rows.append((name, len(values[name]), mean, low, high, adjusted[name], decision))
    return pl.DataFrame(rows, ["objective", "triples", "mean", "lower", "upper", "p", "decision"], orient="row")


def decide(mean: float, lower: float, upper: float, p: float) -> str:
    """The registered rule, with p after Holm."""
    if mean <= WORTH and upper < 0 and p < 1 - LEVEL:
        return "a search pays"
    return "a search does not pay" if lower > WORTH else "open"


def by_mixture(proof: Proof) -> pl.DataFrame:
    """Each triple's mixtures, cheapest search first: triple, mixture, role, seeds, FLOPs and
    minutes of the search, and as means over its fresh seeds, the first where it has none, in logs
    over the reference and less the effects of seeds, the mean loss of the other domains and both
    objectives (I is the mean of the three).
    """
    rows = []
    for triple, wanted in proof.triples.items():
        own = proof.chosen[triple]
        rest = {name: 1.0 for name in proof.domains if name not in wanted}
        objectives = {name: proof.weights(triple, name) for name in PLAN["objectives"]}
        runs = proof.objective("tiny", objectives["I"])
        paired = [proof.paired(weights) for weights in (rest, *objectives.values())]
        for mixture in [REFERENCE, *(name for name in runs if name.startswith(f"{triple}_"))]:
            seeds = [seed for seed in FRESH if seed in runs[mixture]] or [FIRST]
            lost, first, second = (
                float(np.mean([of[mixture, seed] for seed in seeds])) - of[REFERENCE, FIRST] for of in paired
            )
            roles = ", ".join(role for role, name in own.items() if name == mixture)
            flops, minutes = price(proof, triple, mixture)
            rows.append((triple, mixture, roles, len(seeds), flops, minutes, lost, first, second))
    names = ["triple", "mixture", "role", "seeds", "flops", "minutes", "others", "I", "II"]
    table = pl.DataFrame(rows, names, orient="row", infer_schema_length=None)
    return table.sort("triple", "flops", "I") if len(table) else table


def price(proof: Proof, triple: str, mixture: str) -> tuple[float, float]:
    """FLOPs and minutes of the runs behind a mixture: the swarm or the entropies for one shot, the six
    rules and the rounds before for a round, none for a rule by hand; for a chosen one also all that it
    was chosen among. A run counts the median minutes of all proxies, since the clock saw other work.
    """
    block, name = PLAN["blocks"], mixture.removeprefix(f"{triple}_")
    rules = {f"{triple}_{rule}" for rule in block["B"]["by_hand"]}
    rivals = {f"{triple}_{rival}" for rival in block["B"]["rivals"]}
    swarm = {one for one in proof.costs["mixture"].unique() if one.startswith("swarm_")}
    rounds = {role: [f"{triple}_{role}_round{n}" for n in range(1, block["B"]["rounds"] + 1)] for role in ("I", "II")}
    runs: set[str] = set()
    if found := re.fullmatch(r"(I+)_round(\d+)", name):
        runs |= rules | set(rounds[found[1]][: int(found[2]) - 1])
    elif name in block["B"]["rivals"]:
        runs |= set(block["A"]["entropies"]) if name.startswith("bimix") else swarm
    for role in (role for role, chosen in proof.chosen[triple].items() if chosen == mixture):
        runs |= rivals | swarm | set(block["A"]["entropies"]) if role == "rival" else rules | set(rounds.get(role, []))
    costs = proof.costs.filter(pl.col("model") == "tiny")
    count = len(set(costs["mixture"]) & runs)
    return count * float(costs["flops"].median()), count * float(costs["seconds"].median()) / 60


def secondary(proof: Proof) -> pl.DataFrame:
    """question, number of comparisons, value, lower, upper: two-sided 95 % intervals by t over the
    triples where there are several; logs, Spearman's correlation, or the error of a promise.
    """
    rows = []
    if len(proof.triples) > 1 and all("rival" in proof.chosen[triple] for triple in proof.triples):
        rivals = differences(proof, "I", "I", "rival")
        rows.append(("the answer of I against the best rival, fresh seeds", *interval(rivals)))
        single = [
            np.log(proof.first(proof.chosen[triple]["I"], weights) / proof.first(f"{triple}_transfer", weights))
            for triple in proof.triples
            for weights in [proof.weights(triple, "I")]
        ]
        rows.append(("the answer of I against one shot of transfer, first seed", *interval(single)))
    promises = [
        np.log(promised / proof.first(mixture, proof.weights(triple, objective)))
        for search, mixture, promised in proof.rounds.select("search", "mixture", "promised").iter_rows()
        for triple, _, objective in [search.partition("_")]
        if triple in proof.triples and mixture == proof.chosen[triple][objective]
    ]
    if len(promises) > 1:
        rows.append(("promised less measured of the answers, first seed", *interval(promises)))
    if proof.triples:
        for objective in PLAN["objectives"]:
            _, _, noise = proof.noise(proof.weights(next(iter(proof.triples)), objective))
            if noise:
                rows.append((f"noise of a run, {objective} of t1", noise.freedom, noise.deviation, None, None))
    return pl.DataFrame(rows, ["question", "number", "value", "lower", "upper"], orient="row", infer_schema_length=None)


def plain(proof: Proof) -> pl.DataFrame:
    """Block C: mixture, seeds, log of its plain mean over uniform's without the effects of seeds, and
    the 95 % interval.
    """
    names, effects, noise = proof.noise(None)
    own, answer = proof.chosen["c"], names.index("uniform")
    listed = dict.fromkeys([*PLAN["blocks"]["C"]["start"], *(name for name in names if name.startswith("c_"))])
    runs, rows = proof.objective("tiny", None), []
    for name in listed:
        at = names.index(name)
        width = noise.between(at, answer) if noise and at != answer else None
        value = float(effects[at] - effects[answer])
        roles = ", ".join(role for role, mixture in own.items() if mixture == name)
        limits = (None, None) if width is None else (value - width, value + width)
        rows.append((name, roles, len(runs[name]), value, *limits))
    table = pl.DataFrame(
        rows, ["mixture", "role", "seeds", "value", "lower", "upper"], orient="row", infer_schema_length=None
    )
    return table.sort("value")


def larger_has_ended(proof: Proof) -> bool:
    """Whether all runs of block D are there."""
    triple = next(iter(proof.triples))
    own, seeds = proof.chosen[triple], {FIRST, *PLAN["blocks"]["D"]["fresh"]}
    wanted = {REFERENCE, f"{triple}_mariner", *(own[role] for role in ("I", "II", "hand_I", "hand_II"))}
    runs = proof.objective("larger", None)
    return all(seeds <= set(runs.get(name, ())) for name in wanted)


def larger(proof: Proof) -> pl.DataFrame:
    """Block D: mixture, seeds, both objectives in logs over the reference at the larger model and at the
    proxies, without the effects of seeds; in every row Spearman's correlation of both sizes and the noise of
    a run at the larger.
    """
    triple, runs = next(iter(proof.triples)), proof.objective("larger", None)
    names = sorted(runs)
    columns: dict[str, list] = {"mixture": names, "seeds": [len(runs[name]) for name in names]}
    for objective in PLAN["objectives"]:
        for model in ("larger", "tiny"):
            columns[f"{objective}_{model}"] = proof.effects(model, proof.weights(triple, objective), names)
        order = spearmanr(columns[f"{objective}_larger"], columns[f"{objective}_tiny"]).statistic
        columns[f"{objective}_order"] = [float(order)] * len(names)
        _, _, noise = proof.noise(proof.weights(triple, objective), "larger")
        columns[f"{objective}_noise"] = [noise.deviation] * len(names)
    return pl.DataFrame(columns).sort("I_larger")


def bounds(proof: Proof) -> pl.DataFrame:
    """Of the losses of block D's mixtures by domain, those that `transfer`, fitted to the first seeds of
    block A and of the triple, foretells at most MARGIN above the reference's at the larger model, and
    those of them that are above it there: by the law alone, with its width, and with effects that
    grow as `effect_growth` says. In every row that growth and the measured one, the slope of the larger
    model's log effects on the proxies', both without the effects of seeds.
    """
    triple = next(iter(proof.triples))
    mixtures = sorted(set(proof.objective("larger", None)) - {REFERENCE})
    later = pl.col("mixture").str.contains(r"^(c|t\d+)_") & ~pl.col("mixture").str.starts_with(f"{triple}_")
    runs = proof.losses["tiny"].filter(pl.col("seed") == FIRST, ~later)
    seen = observations(runs.drop("seed"), proof.shares)
    own = seen.take([seen.mixtures.index(name) for name in [REFERENCE, *mixtures]])
    fitted = laws.fit("transfer", seen)
    guess = np.log(laws.predict_runs(fitted, own, own.steps)[:, 0])
    measured = {
        model: np.array([proof.effects(model, {domain: 1.0}, mixtures) for domain in seen.loss_domains]).T
        for model in ("tiny", "larger")
    }
    slope = float((measured["tiny"] * measured["larger"]).sum() / (measured["tiny"] ** 2).sum())
    means = [np.mean([*proof.objective(model, None, [REFERENCE])[REFERENCE].values()]) for model in measured]
    nu, found = float(np.divide(*np.log(np.log(VOCABULARY) / np.array(means)[::-1]))), []
    plain, grown = (Objective(kind="no_worse_than", margin=MARGIN, effect_growth=one) for one in (1.0, nu))
    ways = {
        "the law alone": plain.allowed,
        "its width": plain.limits(fitted, seen.loss_domains),
        "width and growth": grown.limits(fitted, seen.loss_domains),
    }
    for way, limits in ways.items():
        kept = guess[1:] - guess[:1] <= np.log(limits)
        over = np.expm1(measured["larger"][kept]) - MARGIN
        found.append((way, int(kept.sum()), int((over > 0).sum()), max(float(over.max(initial=0)), 0.0), nu, slope))
    names = ["way", "foretold", "broken", "worst", "growth", "measured"]
    return pl.DataFrame(found, names, orient="row")


# The page


def between(row: dict) -> str:
    """A change with its interval, where it has one."""
    if row["lower"] is None:
        return percent(row["value"])
    return f"{percent(row['value'], 2)} ({100 * np.expm1(row['lower']):+.2f} to {100 * np.expm1(row['upper']):+.2f})"


def sentences(proof: Proof, tables: dict[str, pl.DataFrame]) -> list[str]:
    """How much has ended, and the primary answers, as the decision rule has them."""
    said = [f"{len(proof.costs)} runs have ended, and {len(proof.triples)} of the {PLAN['triples']['count']} triples."]
    if "primary" not in tables:
        said.append("There is no answer yet.")
    for row in tables.get("primary", pl.DataFrame()).iter_rows(named=True):
        wanted = {"I": "the mean of three wanted domains", "II": "half that, half the mean of the others"}
        said.append(
            f"**Objective {row['objective']}** ({wanted[row['objective']]}): **{row['decision']}.** Over {row['triples']}"
            f" triples the search's answer ends {percent(row['mean'], 2)} from the best of six rules by hand (one-sided"
            f" 95 % bounds {percent(row['lower'], 2)} and {percent(row['upper'], 2)}, p = {row['p']:.3f} by Holm's order)."
        )
    if "primary" in tables:
        values = {name: differences(proof, name, name, f"hand_{name}") for name in PLAN["objectives"]}
        own = [f"{name} {', '.join(percent(one, 2) for one in of)}" for name, of in values.items()]
        said.append(f"By triple, {' to '.join([*proof.triples][:: max(1, len(proof.triples) - 1)])}: {'; '.join(own)}.")
        if len(proof.triples) > 2:
            left = [float(np.mean(np.delete(values["I"], at))) for at in range(len(values["I"]))]
            said.append(f"Without any one triple the mean for I is {percent(max(left), 2)} to {percent(min(left), 2)}.")
    return said


def parts_of(proof: Proof, tables: dict[str, pl.DataFrame]) -> dict[str, str]:
    """{mark: what stands there} of the page."""
    parts = dict.fromkeys(VIEWS, "These runs have not ended.\n")
    parts |= {name: view(tables[name]) for name, view in VIEWS.items() if name in tables}
    parts["answer"] = "\n".join(wrapped(said) for said in sentences(proof, tables)) + "\n"
    return parts


def view_mixtures(table: pl.DataFrame) -> str:
    """Means over the triples of what was chosen, and of one shot of `transfer`."""
    chosen = table.with_columns(pl.col("role").str.split(", ")).explode("role").filter(pl.col("role") != "")
    shot = table.filter(pl.col("mixture").str.ends_with("_transfer")).with_columns(role=pl.lit("transfer"))
    means = pl.concat([chosen, shot]).group_by("role").agg(pl.mean("flops", "minutes", "others", "I", "II"))
    rows = []
    for row in means.sort("flops", "I").iter_rows(named=True):
        cost = [f"{row['flops']:.2g}", f"{row['minutes']:.0f}"]
        rows.append(
            [CALLED.get(row["role"], row["role"]), *cost, *(percent(row[name]) for name in ("others", "I", "II"))]
        )
    return markdown(["mixture", "FLOPs", "minutes", "the others", "I", "II"], rows)


def view_secondary(table: pl.DataFrame) -> str:
    """A sentence."""
    cells = []
    for row in table.iter_rows(named=True):
        value = f"{100 * row['value']:.2f} %" if "noise" in row["question"] else between(row)
        cells.append(f"{row['question']}: {value}")
    return wrapped(f"In the registered order, {'; '.join(cells)}.") + "\n"


def view_plain(table: pl.DataFrame) -> str:
    """A sentence on what was chosen and on the reference."""
    shown = table.filter((pl.col("role") != "") | (pl.col("mixture") == REFERENCE))
    cells = [f"`{row['mixture']}` {between(row)}" for row in shown.iter_rows(named=True)]
    return wrapped(f"Compared with `uniform`: {', '.join(cells)}.") + "\n"


def view_larger(table: pl.DataFrame) -> str:
    values = ["I_larger", "I_tiny", "II_larger", "II_tiny"]
    heads = ["mixture", "seeds", "I, larger", "I, proxies", "II, larger", "II, proxies"]
    rows = [
        [f"`{row['mixture']}`", str(row["seeds"]), *(percent(row[name]) for name in values)]
        for row in table.iter_rows(named=True)
    ]
    orders = " and ".join(f"{table[f'{name}_order'][0]:.2f} for {name}" for name in PLAN["objectives"])
    noise = " and ".join(f"{100 * table[f'{name}_noise'][0]:.2f} %" for name in PLAN["objectives"])
    told = f"Spearman's correlation of both sizes is {orders}. A run of the larger model has a noise of {noise}."
    return markdown(heads, rows) + f"\n{wrapped(told)}\n"


def view_bounds(table: pl.DataFrame) -> str:
    """A sentence."""
    cells = [
        f"by {row['way']} {row['foretold']} are, and {row['broken']} of these end above, by {100 * row['worst']:.1f} points at most"
        for row in table.iter_rows(named=True)
    ]
    measured, said = table["measured"][0], table["growth"][0]
    grown = f"Log effects of mixtures are {measured:.2f} times those of the proxies; `effect_growth` says {said:.2f}."
    return wrapped(f"Within {100 * MARGIN:.0f} %: {'; '.join(cells)}. {grown}") + "\n"


VIEWS = {
    "mixtures": view_mixtures,
    "secondary": view_secondary,
    "plain": view_plain,
    "larger": view_larger,
    "bounds": view_bounds,
}


if __name__ == "__main__":
    main()
