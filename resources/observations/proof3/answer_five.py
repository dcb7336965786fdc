"""Answer the registered questions from the kept tables, without training.

python resources/observations/proof3/answer_five.py [--folder F] [--figure five_runs.svg] [--page docs/proof.md]

registration.yaml, triples.json, tiny.csv, larger.csv, promised.csv, ablation.csv, ../proof2/tiny.csv ->
the sentences and tables of docs/proof.md between its marks. What lacks a run is not yet measured.
"""

import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl
import yaml

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import answered
from answered import LEVEL, WORTH, bounds_by_t, holm, interval, log_mean, markdown, percent, wrapped

from bimix.tables import read_json, read_table

HERE = Path(__file__).resolve().parent
PROOF2 = HERE.parent / "proof2"
PLAN = yaml.safe_load((HERE / "registration.yaml").read_text(encoding="utf-8"))
REFERENCE, FIRST, FRESH = PLAN["reference"], PLAN["seeds"]["first"], PLAN["seeds"]["fresh"]
LARGER_NOISE = 0.0021  # of a run at the larger model, as registered
# A candidate: the runs that it is made from.
PRICES = {
    "rule": 0,
    "uniform_rule": 0,
    "bimix5": 5,
    "transfer5": 5,
    "transfer6": 6,
    "transfer64": 64,
    "transfer5_II": 5,
    "transfer64_II": 64,
}
BETTER_RULE = "better rule"  # of rule and uniform_rule, the lower one at the fresh seeds of each triple
PRIMARY = ("transfer5", "rule", "I")
SECONDARY = [
    ("transfer5", "transfer64", "I"),
    ("transfer5_II", BETTER_RULE, "II"),
    ("transfer6", "transfer5", "I"),
    ("bimix5", "transfer5", "I"),
]
ON_LARGER = ("rule", "transfer5", "for_larger_prior", "for_larger")
NOT_YET = "not yet measured"


def main() -> None:
    parser = answered.flags(__doc__, HERE)
    parser.add_argument("--figure", type=Path, help="svg of the difference from the rule, once two candidates have it")
    options = parser.parse_args()
    proof = read_proof(options.folder)
    tables = answers(proof)
    if options.figure and several(tables["prices"]):
        draw(proof, options.figure)
    answered.report(options.page, parts_of(proof, tables), sentences(proof, tables))


@dataclass(frozen=True)
class Proof:
    """The kept tables: `tiny` and `larger` (mixture, seed, domain, loss at the last step), those of
    `proof2`'s proxies, the objective that laws `promised`, the refits of the `ablation`.
    """

    tiny: pl.DataFrame
    larger: pl.DataFrame
    proof2: pl.DataFrame
    triples: dict[str, list[str]]
    promised: dict[str, float]
    ablation: pl.DataFrame

    def weights(self, triple: str, objective: str) -> dict[str, float]:
        """The weights of objective I or II of a triple; `others`: the plain mean of what is not wanted."""
        domains, wanted = sorted(self.proof2["domain"].unique()), self.triples[triple]
        if objective == "others":
            return {name: 1.0 for name in domains if name not in wanted}
        return answered.weights_of(domains, wanted, PLAN["objectives"][objective]["wanted"])

    def levels(self, candidate: str, objective: str) -> np.ndarray | None:
        """For each triple the log of a candidate's mean objective over the fresh seeds; None where a
        run is missing.
        """
        if candidate == BETTER_RULE:
            both = [self.levels(rule, objective) for rule in ("rule", "uniform_rule")]
            return None if any(one is None for one in both) else np.minimum(*both)
        found = []
        for triple in self.triples:
            mixture = REFERENCE if candidate == REFERENCE else f"{triple}_{candidate}"
            runs = answered.objective(self.tiny.filter(mixture=mixture), self.weights(triple, objective))
            if not set(FRESH) <= set(runs.get(mixture, ())):
                return None
            found.append(log_mean(runs[mixture], FRESH))
        return np.array(found)

    def needed(self) -> set[tuple[str, str, int]]:
        """(model, mixture, seed) of all registered runs."""
        runs = {("tiny", REFERENCE, seed) for seed in (FIRST, *FRESH)}
        for triple in self.triples:
            runs |= {("tiny", f"{triple}_{name}", seed) for name in PRICES for seed in FRESH}
            runs.add(("tiny", f"{triple}_transfer5", FIRST))
        return runs | {("larger", f"{triple}_{name}", FIRST) for triple in self.largest for name in ON_LARGER}

    def ended(self) -> set[tuple[str, str, int]]:
        """Those of them that have ended."""
        kept = {
            (model, mixture, seed)
            for model, table in (("tiny", self.tiny), ("larger", self.larger))
            for mixture, seed in table.select("mixture", "seed").unique().iter_rows()
        }
        return kept & self.needed()

    @property
    def largest(self) -> list[str]:
        """The triples that the larger model is asked about."""
        return list(self.triples)[:3]


def read_proof(folder: Path) -> Proof:
    """The tables of a folder, at the last step of each model."""
    losses, empty = {}, {"mixture": pl.String, "seed": pl.Int64, "domain": pl.String, "loss": pl.Float64}
    for model in ("tiny", "larger"):
        path = folder / f"{model}.csv"
        table = (
            read_table(path).filter(step=PLAN["runs"][model]["steps"]) if path.is_file() else pl.DataFrame(schema=empty)
        )
        losses[model] = table.select(list(empty))
    proof2 = read_table(PROOF2 / "tiny.csv").filter(step=PLAN["runs"]["tiny"]["steps"])
    triples = read_json(folder / "triples.json")["triples"]
    promised = dict(read_table(folder / "promised.csv").iter_rows())
    return Proof(losses["tiny"], losses["larger"], proof2, triples, promised, read_table(folder / "ablation.csv"))


def answers(proof: Proof) -> dict[str, pl.DataFrame]:
    """{name: table} of the page."""
    return {
        "questions": questions(proof),
        "prices": prices(proof),
        "larger": larger(proof),
        "ablation": ablation(proof),
    }


def differences(proof: Proof, one: str, other: str, objective: str) -> np.ndarray | None:
    """D of each triple; None where a run is missing."""
    both = proof.levels(one, objective), proof.levels(other, objective)
    return None if any(level is None for level in both) else both[0] - both[1]


def questions(proof: Proof) -> pl.DataFrame:
    """question, number, value, lower, upper, p, decision: the primary with one-sided bounds; the others
    with two-sided 95 % intervals, their p by Holm's order once all four are measured. Nulls: not yet
    measured.
    """
    rows = []
    values = differences(proof, *PRIMARY)
    if values is not None:
        mean, (low, high, _) = float(values.mean()), bounds_by_t(values)
        rows.append((said(PRIMARY), len(values), mean, low, high, None, decide(mean, low, high)))
    else:
        rows.append((said(PRIMARY), *[None] * 5, NOT_YET))
    found = {said(asked): differences(proof, *asked) for asked in SECONDARY}
    complete = all(values is not None for values in found.values())
    adjusted = holm({name: two_sided(values) for name, values in found.items()}) if complete else {}
    for name, values in found.items():
        if values is None:
            rows.append((name, *[None] * 5, NOT_YET))
            continue
        p = adjusted.get(name)
        sure = p is not None and p < 1 - LEVEL
        side = "below" if values.mean() < 0 else "above"
        rows.append((name, *interval(values), p, side if sure else "open" if complete else "not all four are measured"))
    judged = [proof.ablation.filter(design="five", prior=prior).select(list(proof.triples)) for prior in (False, True)]
    if all(len(table) for table in judged):
        without = np.array(judged[0].row(0)) - np.array(judged[1].row(0))
        rows.append(("transfer5 without the prior less with it, I, judged", *interval(without), None, "judged"))
    for name, objective in (("transfer5", "I"), ("transfer5_II", "II")):
        level, question = proof.levels(name, objective), f"promised less measured, {name}, {objective}"
        if level is None:
            rows.append((question, *[None] * 5, NOT_YET))
        else:
            own = np.log([proof.promised[f"{triple}_{name}"] for triple in proof.triples]) - level
            rows.append((question, *interval(own), None, "measured"))
    for objective in PLAN["objectives"]:
        triple = next(iter(proof.triples))
        fresh = proof.tiny.filter(pl.col("seed").is_in(FRESH))
        _, _, noise = (
            answered.noise(answered.objective(fresh, proof.weights(triple, objective))) if len(fresh) else (0, 0, None)
        )
        if noise:
            rows.append(
                (f"noise of a run, {objective} of {triple}", noise.freedom, noise.deviation, *[None] * 3, "measured")
            )
    names = ["question", "number", "value", "lower", "upper", "p", "decision"]
    return pl.DataFrame(rows, names, orient="row", infer_schema_length=None)


def said(asked: tuple[str, str, str]) -> str:
    return "{} less {}, {}".format(*asked)


def two_sided(values: np.ndarray) -> float:
    """The p of a mean of nothing, by t."""
    p = bounds_by_t(values)[2]
    return 2 * min(p, 1 - p)


def decide(mean: float, lower: float, upper: float) -> str:
    """The registered rule of the primary question."""
    if mean <= WORTH and upper < 0:
        return "it pays"
    return "it does not" if lower > WORTH else "open"


def prices(proof: Proof) -> pl.DataFrame:
    """candidate, runs that it is made from, and means over the triples of the log of both objectives and
    of the others' mean loss over the rule's, and over the reference's. Null: not yet measured.
    """
    rows = []
    for name, runs in {REFERENCE: 0, **PRICES}.items():
        cells = []
        for base in ("rule", REFERENCE):
            for objective in ("I", "II", "others"):
                values = differences(proof, name, base, objective)
                cells.append(None if values is None else float(values.mean()))
        rows.append((name, runs, *cells))
    names = [
        "candidate",
        "runs",
        *(f"{objective}_{base}" for base in ("rule", "reference") for objective in ("I", "II", "others")),
    ]
    return pl.DataFrame(rows, names, orient="row", infer_schema_length=None)


def larger(proof: Proof) -> pl.DataFrame:
    """question, number, value, decision: means over the triples of the log of objective I over the rule's
    at the larger model; the law for larger models is decided. Nulls: not yet measured.
    """
    rows = []
    for name in ON_LARGER[1:]:
        values = []
        for triple in proof.largest:
            runs = answered.objective(proof.larger, proof.weights(triple, "I"))
            own, rule = (runs.get(f"{triple}_{one}", {}).get(FIRST) for one in (name, "rule"))
            if own and rule:
                values.append(float(np.log(own / rule)))
        question = f"{name} less rule, I, larger model"
        if len(values) < len(proof.largest):
            rows.append((question, None, None, NOT_YET))
            continue
        mean = float(np.mean(values))
        rows.append((question, len(values), mean, decide_larger(mean) if name == "for_larger" else "measured"))
    return pl.DataFrame(rows, ["question", "number", "value", "decision"], orient="row", infer_schema_length=None)


def decide_larger(mean: float) -> str:
    """The registered rule for the larger model."""
    if mean < -1.645 * LARGER_NOISE * (2 / 3) ** 0.5:
        return "below"
    return "not below" if mean >= 0 else "open"


def ablation(proof: Proof) -> pl.DataFrame:
    """design (the five; those that leave one out; random draws), designs, and with and without the prior
    the mean error of its law, and the mean, least and most of the judge's log of objective I over the
    reference, itself the mean of the triples.
    """
    kind = (
        pl.col("design")
        .str.replace(r"^without_.*$", "four of the five")
        .str.replace(r"^random_.*$", "five random draws")
    )
    table = proof.ablation.with_columns(
        kind.replace("five", "the five"), judged=pl.mean_horizontal(list(proof.triples))
    )
    judged = [pl.col("judged").mean(), pl.col("judged").min().alias("least"), pl.col("judged").max().alias("most")]
    found = table.group_by("design", "prior").agg(pl.len().alias("designs"), pl.col("error").mean(), *judged)
    return found.sort("design", "prior", descending=True)


def check(proof: Proof) -> float | None:
    """The root mean square of the check's log losses over the kept ones; None before it has ended."""
    run, kept = (table.filter(mixture=PLAN["five"][0], seed=FIRST) for table in (proof.tiny, proof.proof2))
    both = run.join(kept, on="domain", validate="1:1")
    return (
        float(np.sqrt(both.select((pl.col("loss") / pl.col("loss_right")).log().pow(2).mean()).item()))
        if len(both)
        else None
    )


# The page


def sentences(proof: Proof, tables: dict[str, pl.DataFrame]) -> list[str]:
    """How much has ended, and the primary answer, as the decision rule has it."""
    ended, needed = proof.ended(), proof.needed()
    found = [f"{len(ended)} of the {len(needed)} registered runs have ended."]
    row = tables["questions"].row(0, named=True)
    if row["value"] is None:
        own = {
            run for run in needed if run[0] == "tiny" and run[1].endswith(("_transfer5", "_rule")) and run[2] in FRESH
        }
        own = {run for run in own if not run[1].endswith("_uniform_rule")}
        found.append(f"The primary question is not yet measured: {len(own & ended)} of its {len(own)} runs have ended.")
        return found
    found.insert(
        0,
        f"**{row['decision'].capitalize()}.** Over {row['number']} triples one shot of `transfer` from the five runs ends"
        f" {percent(row['value'], 2)} from the rule (objective I; one-sided 95 % bounds {percent(row['lower'], 2)} and"
        f" {percent(row['upper'], 2)}).",
    )
    own = differences(proof, *PRIMARY)
    found.append(f"By triple, u1 to u{len(own)}: {', '.join(percent(float(one), 2) for one in own)}.")
    return found


def parts_of(proof: Proof, tables: dict[str, pl.DataFrame]) -> dict[str, str]:
    """{mark: what stands there} of the page; the figure stands below the prices once there is one."""
    figure = "\n![The difference from the rule, a mark a triple](figures/five_runs.svg)\n"
    return {
        "five_answer": "\n".join(wrapped(one) for one in sentences(proof, tables)) + "\n",
        "five_questions": view_questions(pl.concat([tables["questions"], tables["larger"]], how="diagonal")),
        "five_prices": view_prices(tables["prices"]) + (figure if several(tables["prices"]) else ""),
        "five_ablation": view_ablation(tables["ablation"]),
    }


def view_questions(table: pl.DataFrame) -> str:
    """A row for each that is measured, and a sentence on the others."""
    rows, missing = [], table.filter(decision=NOT_YET)["question"].to_list()
    for row in table.filter(pl.col("decision") != NOT_YET).iter_rows(named=True):
        value = percent(row["value"], 2)
        if "noise" in row["question"]:
            value = f"{100 * row['value']:.2f} %"
        elif row["lower"] is not None:
            value += f" ({100 * np.expm1(row['lower']):+.2f} to {100 * np.expm1(row['upper']):+.2f})"
        p = "" if row["p"] is None else f"{row['p']:.3f}"
        rows.append([row["question"], value, p, row["decision"]])
    measured = markdown(["question", "value", "p", "answer"], rows) if rows else ""
    return "\n".join(filter(None, [measured, missing and wrapped(f"Not yet measured: {'; '.join(missing)}.") + "\n"]))


def several(prices: pl.DataFrame) -> bool:
    """Whether two candidates and the rule are measured, so that there is something to draw."""
    return prices["I_rule"].count() > 2


def view_prices(table: pl.DataFrame) -> str:
    """A row for each mixture that is measured, and a sentence on the others."""
    rows, missing = [], []
    for row in table.iter_rows(named=True):
        values = [row[key] for key in ("I_rule", "II_rule", "others_rule")]
        if None in values:
            missing.append(f"`{row['candidate']}`")
        else:
            rows.append([f"`{row['candidate']}`", str(row["runs"]), *map(percent, values)])
    measured = markdown(["mixture", "runs", "I", "II", "the others"], rows) if rows else ""
    return "\n".join(filter(None, [measured, missing and wrapped(f"Not yet measured: {', '.join(missing)}.") + "\n"]))


def view_ablation(table: pl.DataFrame) -> str:
    rows = []
    for row in table.iter_rows(named=True):
        span = f" ({100 * np.expm1(row['least']):+.1f} to {100 * np.expm1(row['most']):+.1f})"
        judged = percent(row["judged"]) + (span if row["designs"] > 1 else "")
        rows.append([row["design"], "yes" if row["prior"] else "no", f"{100 * row['error']:.1f} %", judged])
    return markdown(["runs", "prior", "error", "judged I"], rows)


def draw(proof: Proof, path: Path) -> None:
    """The difference from the rule in percent, a row a candidate in the order of prices, a mark a triple."""
    from matplotlib import pyplot as plt

    from bimix.results import figures

    panels = plt.subplots(1, 2, figsize=(figures.WIDTH, 2.6), layout="constrained")[1]
    shown = {
        "I": ["transfer64", "transfer6", "transfer5", "bimix5", "uniform_rule"],
        "II": ["transfer64_II", "transfer5_II", "uniform_rule"],
    }
    for axes, (objective, names) in zip(panels, shown.items(), strict=True):
        for place, name in enumerate(names):
            values = differences(proof, name, "rule", objective)
            if values is None:
                continue
            axes.plot(100 * np.expm1(values), [place] * len(values), "o", color="#999933", markerfacecolor="white")
            axes.plot(100 * np.expm1(values.mean()), place, "D", color="#6A3D9A")
        labels = [f"{name.removesuffix('_II')}, {PRICES[name]} runs" for name in names]
        axes.set_yticks(range(len(names)), labels)
        axes.axvline(0, color="#000000", linewidth=0.8)
        axes.set_xlabel(f"objective {objective}, % from the rule")
    plt.savefig(path, metadata={"Date": None})


if __name__ == "__main__":
    main()
