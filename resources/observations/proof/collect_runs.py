"""Write the finished runs of the proof as tables, as docs/proof.md says. Call it again when more
runs have finished: rows of runs that are not among the results stay as they are.

python resources/observations/proof/collect_runs.py results/proof --out resources/observations/proof

runs/{model}/*/, swarm/{model}/, mixtures/ -> {model}.csv (mixture, seed, step,
tokens, domain, loss), {model}_mixtures.csv (mixture, domain, proportion, pool), {model}_pools.csv
(domain, tokens), runs.csv (what each run cost); of several models also sizes.csv and
sizes_mixtures.csv, the ends of each mixture's first seed with the parameters of its model: a larger
model's runs are {model}_{mixture} there, since each model has pools of its own. Of the smallest
model also {model}_first.csv, the first seed of each mixture, which laws are fitted to, and
blind_mixtures.csv, the mixtures without pools, for a law that knows of no repetition

downstream/{model}/ -> answers.csv (model, mixture, seed, task, step, items, right, bits_per_byte,
error)
"""

import argparse
import sys
from pathlib import Path

import polars as pl

sys.path.insert(0, str(Path(__file__).parents[3] / "workflow" / "scripts"))

from bimix.laws.table import is_optimum
from bimix.mixtures.names import REWEIGHTING
from bimix.mixtures.pools import pools as pools_of
from bimix.outputs import write_table
from bimix.tables import read_json, read_table

FOUND = "by_"  # before a method's name: in a dataset of losses the bare name is a mixture to be found
RUN = ("parameters", "tokens", "flops", "seconds", "device", "commit")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=Path, help="the folder of the trained dataset")
    parser.add_argument("--out", type=Path, required=True, help="the folder of the tables")
    options = parser.parse_args()
    runs, losses = finished(options.results)
    if not runs:
        parser.error(f"{options.results} has no finished run")
    for model in sorted({run["model"] for run in runs}):
        table = pl.concat([table for (of, *_), table in losses.items() if of == model])
        write_joined(table.with_columns(pl.col("loss").round(6)), options.out / f"{model}.csv", "mixture", "seed")
    for model in sorted({run["model"] for run in runs}):
        pools = pooled(options.results, model)
        names = dict.fromkeys((run["mixture"], named(run["mixture"])) for run in runs if run["model"] == model)
        rows = [
            (name, domain, share, pools.get(domain))
            for mixture, name in names
            for domain, share in sorted(proportions(options.results, mixture).items())
        ]
        schema = {"mixture": pl.String, "domain": pl.String, "proportion": pl.Float64, "pool": pl.Float64}
        mixtures = pl.DataFrame(rows, schema=schema, orient="row")
        write_joined(mixtures, options.out / f"{model}_mixtures.csv", "mixture")
    told = [run | {"mixture": named(run["mixture"])} for run in runs]
    costs = pl.DataFrame(told, infer_schema_length=None)
    write_joined(costs, options.out / "runs.csv", "model", "mixture", "seed")
    write_sizes(options.out)
    write_answers(options.results, options.out)


def write_answers(results: Path, out: Path) -> None:
    """How likely the models find the right answers, where they were asked: mean and its error."""
    tables = []
    for path in sorted(results.glob("downstream/*/*.parquet")):
        mixture, _, seed = path.stem.partition("@")
        own = {"model": path.parent.name, "mixture": named(mixture), "seed": int(seed or 1)}
        bits = pl.col("gold_bits") / pl.col("gold_bytes")
        told = {
            "items": pl.len(),
            "right": pl.col("normalised").mean(),
            "bits_per_byte": bits.mean().round(4),
            "error": (bits.std() / pl.len().sqrt()).round(4),
        }
        answers = read_table(path).group_by("task", "step").agg(**told)
        tables.append(answers.select(*(pl.lit(value).alias(key) for key, value in own.items()), pl.all()))
    if tables:
        write_joined(pl.concat(tables), out / "answers.csv", "model", "mixture", "seed", "task", "step")


def write_sizes(out: Path) -> None:
    """The ends of all models' runs in one table, one seed of each, and their mixtures."""
    told = pl.read_csv(out / "runs.csv")
    models = told.group_by("model").agg(pl.col("parameters").max()).sort("parameters").rows()
    losses, mixtures = [], []
    for k, (model, parameters) in enumerate(models):
        name = pl.concat_str(pl.lit(f"{model}_" if k else ""), "mixture").alias("mixture")
        table = pl.read_csv(out / f"{model}.csv").with_columns(name, parameters=pl.lit(parameters))
        first = table.filter(pl.col("seed") == pl.col("seed").min().over("mixture"))
        if not k:
            write_table(first.select(pl.exclude("parameters")), out / f"{model}_first.csv")
        losses.append(first.filter(pl.col("step") == pl.col("step").max().over("mixture")))
        mixtures.append(pl.read_csv(out / f"{model}_mixtures.csv").with_columns(name))
        pools = mixtures[-1].select("domain", tokens="pool").drop_nulls().unique().sort("domain")
        write_table(pools, out / f"{model}_pools.csv")
    write_table(mixtures[0].drop("pool"), out / "blind_mixtures.csv")
    if len(models) > 1:
        write_table(pl.concat(losses), out / "sizes.csv")
        write_table(pl.concat(mixtures), out / "sizes_mixtures.csv")


def write_joined(table: pl.DataFrame, path: Path, *key: str) -> None:
    """Write the table with the earlier rows of the file whose key is not in it."""
    if path.is_file():
        earlier = pl.read_csv(path, schema=table.schema)
        table = pl.concat([table, earlier.join(table.select(key).unique(), on=key, how="anti", maintain_order="left")])
    write_table(table.sort(key, maintain_order=True), path)


def named(mixture: str) -> str:
    """The mixture's name in the tables."""
    return FOUND + mixture if is_optimum(mixture) or mixture in REWEIGHTING else mixture


def finished(results: Path) -> tuple[list[dict], dict[tuple, pl.DataFrame]]:
    """What each run cost, and {(model, mixture, seed): losses of a run}."""
    runs, losses = [], {}
    for path in sorted(results.glob("runs/*/*/run.json")):
        report, model, (mixture, *_) = read_json(path), path.parts[-3], path.parts[-2].split("@")
        runs.append({"model": model, "mixture": mixture, "seed": report["seed"]} | {key: report[key] for key in RUN})
        table = read_table(path.parent / "losses.parquet")
        losses[model, mixture, report["seed"]] = tidy(table, mixture, report["seed"])
    for path in sorted(results.glob("swarm/*/*/runs.parquet"), key=lambda path: int(path.parts[-2])):
        model, table = path.parts[-3], read_table(path.parent / "losses.parquet")
        for report in read_table(path).iter_rows(named=True):
            mixture, seed = report["mixture"], report["seed"]
            own = {"model": model, "mixture": mixture, "seed": seed}
            runs.append(own | {key: report.get(key) for key in RUN})
            losses[model, mixture, seed] = tidy(table.filter(pl.col("mixture") == mixture), mixture, seed)
    for path in sorted(results.glob("swarm/*/state/*/*/run.json")):  # those of parts that are under way
        report, model, mixture = read_json(path), path.parts[-5], path.parts[-3]
        if (model, mixture, report["seed"]) not in losses:
            runs.append(
                {"model": model, "mixture": mixture, "seed": report["seed"]} | {key: report[key] for key in RUN}
            )
            table = read_table(path.parent / "losses.parquet")
            losses[model, mixture, report["seed"]] = tidy(table, mixture, report["seed"])
    return runs, losses


def tidy(table: pl.DataFrame, mixture: str, seed: int) -> pl.DataFrame:
    own = (pl.lit(named(mixture)).alias("mixture"), pl.lit(seed, pl.Int64).alias("seed"))
    return table.select(*own, "step", "tokens", "domain", "loss")


def proportions(results: Path, mixture: str) -> dict[str, float]:
    """{domain: proportion} of a mixture of the results."""
    path = results / "mixtures" / f"{mixture}.json"
    if path.is_file():
        return read_json(path)
    drawn = read_table(results / "mixtures" / "groups" / "swarm.parquet").filter(pl.col("mixture") == mixture)
    return dict(drawn.select("domain", "proportion").iter_rows())


def pooled(results: Path, model: str) -> dict[str, float]:
    """{domain: unique tokens} of the runs of a model; empty where the tokens are gone."""
    index = results / "tokens" / "train.parquet"
    reports = [*results.glob(f"runs/{model}/*/run.json"), *results.glob(f"swarm/{model}/state/*/*/run.json")]
    if not index.is_file() or not reports:
        return {}
    return pools_of(index, read_json(reports[0])["recipe"].get("pool_share", 1.0))


if __name__ == "__main__":
    main()
