"""Train the registered proof, block by block; call it again to go on.

python resources/observations/proof2/train.py --commit HASH [--until A|B|C|D] [--triples t3 t4]

registration.yaml, results/proof2/ -> mixtures/{mixture}.csv beside this file (each mixture once it
is decided, and never changed after that), results/proof2/runs/, and the tables of
../proof/collect_runs.py beside this file

Call it in a clone of the project, with pile22/ there. Runs in the tables beside this file are not
trained again, so a clone without results goes on where these end. The law `mariner`, a rival of block
B, has left the workflow since: its optima are in mixtures/, and are not made again. HASH is the commit of
registration.yaml alone: it draws the triples. With --triples only their part of block B is trained,
as in a second clone on another core: copy its runs, mixtures and what it decided to the first clone.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import polars as pl
import yaml

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "workflow" / "scripts"))

from bimix.outputs import write_json, write_table
from bimix.tables import read_json, read_table

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
SCRIPTS = ROOT / "workflow" / "scripts"
PLAN = yaml.safe_load((HERE / "registration.yaml").read_text(encoding="utf-8"))
MIXTURES = HERE / "mixtures"
RESULTS = Path("results/proof2")
STEP = str(PLAN["runs"]["tiny"]["steps"])
TOKENS = PLAN["runs"]["tiny"]["tokens"]
CAP = str(PLAN["max_epochs"])
FRESH = PLAN["seeds"]["fresh"]
FIRST = PLAN["seeds"]["first"]
LEAST = "0.1"  # part of its share of the text that a round leaves each domain
DISTANCES = ("0.05", "0.025", "0.0125")  # total variation to the nearest run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--commit", required=True, help="of the registration")
    parser.add_argument("--until", default="D", choices="ABCD")
    parser.add_argument("--triples", nargs="+", choices=["t1", "t2", "t3", "t4"], help="only these of block B")
    options = parser.parse_args()
    swarm()
    if options.until > "A":
        triples = draw_triples(options.commit)
        own = options.triples or list(triples)
        answers = {name: triple_block(name, triples[name]) for name in own}
        if options.until > "B" and not options.triples:
            plain_block()
        if options.until > "C":
            larger_block(next(iter(triples)), answers)
    collect()


def swarm() -> None:
    """Block A: 64 draws, and what needs no triple: the entropies, the reference, the rules."""
    drawn = [] if all(kept("tiny", name, FIRST) for name in swarm_names()) else [RESULTS / "losses/tiny/swarm.parquet"]
    names = [name for name in PLAN["blocks"]["A"]["also"] if not kept("tiny", name, FIRST)]
    reference = RESULTS / f"mixtures/{PLAN['reference']}.json"
    snakemake(*drawn, RESULTS / "cross_entropy.csv", reference, *runs("tiny", names))


def draw_triples(commit: str) -> dict[str, list[str]]:
    """{t1: three wanted domains, ...}, written to triples.json, as the registration says."""
    tokens = dict(read_table(HERE / "tiny_pools.csv").select("domain", "tokens").iter_rows())
    total, (least, most) = sum(tokens.values()), PLAN["triples"]["share"]
    eligible = sorted(name for name, own in tokens.items() if least <= own / total <= most)
    draw, drawn = np.random.default_rng(int(commit[:8], 16)), []
    while len(drawn) < PLAN["triples"]["count"]:
        triple = sorted(draw.choice(eligible, size=3, replace=False).tolist())
        if triple not in [*drawn, sorted(PLAN["triples"]["not"])]:
            drawn.append(triple)
    named = {f"t{number}": triple for number, triple in enumerate(sorted(drawn), start=1)}
    write_json(HERE / "triples.json", {"commit": commit, "eligible": eligible, "triples": named})
    return named


def triple_block(name: str, wanted: list[str]) -> dict[str, str]:
    """Block B of a triple: {"hand_I": best rule by hand, "I": answer, ..., "rival": best rival}."""
    path = HERE / f"{name}_answers.json"
    if path.is_file() and "rival" in read_json(path):
        return read_json(path)
    objectives = {"I": weights_of(wanted, 1.0), "II": weights_of(wanted, PLAN["objectives"]["II"]["wanted"])}
    hand = [f"{name}_{rule}" for rule in PLAN["blocks"]["B"]["by_hand"]]
    for mixture in hand:
        decide(mixture, lambda out, mixture=mixture: by_hand(mixture.removeprefix(f"{name}_"), wanted, out))
    train("tiny", hand)
    answers = {}
    for objective, weights in objectives.items():
        answers[objective] = search(f"{name}_{objective}", hand, weights)
        answers[f"hand_{objective}"] = lowest(hand, weights)
    rivals = [f"{name}_{rival}" for rival in PLAN["blocks"]["B"]["rivals"]]
    for rival in rivals:
        decide(rival, lambda out, rival=rival: one_shot(rival.removeprefix(f"{name}_"), objectives["I"], out))
    train("tiny", rivals)
    answers["rival"] = lowest(rivals, objectives["I"])
    train("tiny", sorted(set(answers.values())), FRESH)
    write_json(path, answers)
    return answers


def plain_block() -> None:
    """Block C: all domains weigh the same."""
    if (HERE / "c_answers.json").is_file():
        return
    block, weights = PLAN["blocks"]["C"], {}
    rivals = [f"c_{rival}" for rival in block["rivals"]]
    for rival in rivals:
        decide(rival, lambda out, rival=rival: one_shot(rival.removeprefix("c_"), weights, out))
    train("tiny", [*block["start"], *rivals])
    answer = search("c", block["start"], weights)
    train("tiny", sorted({"uniform", answer, lowest(rivals, weights)}), FRESH)
    write_json(HERE / "c_answers.json", {"C": answer, "rival": lowest(rivals, weights)})


def larger_block(name: str, answers: dict[str, dict[str, str]]) -> None:
    """Block D: the first triple's answers on the larger model."""
    own = answers[name]
    mixtures = {PLAN["reference"], f"{name}_mariner", *(own[key] for key in ("I", "II", "hand_I", "hand_II"))}
    train("larger", sorted(mixtures), [FIRST, *PLAN["blocks"]["D"]["fresh"]])


# How mixtures are decided


def decide(mixture: str, make) -> None:
    """Write a mixture's table, if it is not decided yet: `make` writes the JSON it is given."""
    path = MIXTURES / f"{mixture}.csv"
    if not path.is_file():
        made = RESULTS / "decided" / f"{mixture}.json"
        make(made)
        table = pl.DataFrame(sorted(read_json(made).items()), schema=["domain", "proportion"], orient="row")
        write_table(table, path)


def by_hand(rule: str, wanted: list[str], out: Path) -> None:
    """A rule by hand, as `12` or `8_kin`. Its epochs shrink with those at which the wanted domains
    would have 80 % of the run, where these are fewer than twelve.
    """
    from bimix.mixtures import by_hand as rules
    from bimix.mixtures.mixture import as_mixture, read_proportions
    from bimix.observations.prior import kin_weights

    tokens = dict(read_table(HERE / "tiny_pools.csv").select("domain", "tokens").iter_rows())
    domains = sorted(tokens)
    own, amounts = np.isin(domains, wanted), np.array([tokens[domain] for domain in domains])
    full = rules.MOST_WANTED * TOKENS / amounts[own].sum()
    epochs, _, rest = rule.partition("_")
    if rest == "kin":
        others = kin_weights(RESULTS / "cross_entropy.csv", domains, wanted, 0.5)
    elif rest == "uniform":
        others = np.ones(len(domains))
    else:
        shares = read_proportions(RESULTS / f"mixtures/{PLAN['reference']}.json", domains)
        others = np.array([shares.get(domain, 0.0) for domain in domains])
    epochs = float(epochs) * min(1.0, full / 12)
    upper = float(CAP) * amounts / TOKENS
    as_mixture(domains, rules.wanted(amounts, TOKENS, own, epochs, others, None, upper)).write(out)


def one_shot(rival: str, weights: dict[str, float], out: Path) -> None:
    """The optimum of a law fitted once: `bimix_4` is the paper's law at a cap of four epochs, from
    the entropies; the others have the swarm.
    """
    law, _, cap = rival.partition("_")
    names = PLAN["blocks"]["A"]["entropies"] if law == "bimix" else swarm_names()
    losses, mixtures = tables(f"one_shot/{rival}", names)
    coefficients = RESULTS / "decided" / f"{out.stem}.coefficients.json"
    prior = ["--prior", RESULTS / "cross_entropy.csv"] if law == "transfer" else []
    script("fit_law.py", "--law", law, "--losses", losses, "--mixtures", mixtures, *prior, "--out", coefficients)
    script(
        "optimize_mixture.py", "--coefficients", coefficients, "--step", STEP, *asked(weights, cap or CAP),
        "--centre", RESULTS / f"mixtures/{PLAN['reference']}.json", "--strengths", "2", "50", "--out", out,
    )  # fmt: skip


def search(name: str, start: list[str], weights: dict[str, float]) -> str:
    """The answer of a search: all its rounds are run, whatever is expected of them."""
    rounds, known = [], list(start)
    for number in range(1, PLAN["blocks"]["B"]["rounds"] + 1):
        mixture = f"{name}_round{number}"
        rounds.append(mixture)
        decide(mixture, lambda out, number=number: _propose(name, known, weights, number, out))
        train("tiny", [mixture])
        known.append(mixture)
    report = _propose(name, known, weights, len(rounds) + 1, None)
    return report["best"]


def _propose(name: str, known: list[str], weights: dict[str, float], number: int, out: Path | None) -> dict:
    losses, mixtures = tables(f"search/{name}_{number}", known)
    table, report = RESULTS / f"decided/{name}_{number}.csv", RESULTS / f"decided/{name}_{number}.report.json"
    flags = [
        "--losses", losses, "--mixtures", mixtures, "--prior", RESULTS / "cross_entropy.csv", "--step", STEP,
        *asked(weights, CAP), "--least", LEAST, "--round", str(number), "--out", table, "--report", report,
    ]  # fmt: skip
    for distance in DISTANCES:  # nearer to the runs only where no mixture is left farther away
        command = [sys.executable, SCRIPTS / "propose_round.py", *map(str, flags), "--distance", distance]
        if subprocess.run(command, check=distance == DISTANCES[-1]).returncode == 0:
            break
    if out is not None:
        write_json(out, dict(read_table(table).select("domain", "proportion").iter_rows()))
    return read_json(report)


def asked(weights: dict[str, float], cap: str) -> list:
    """The flags of an objective, the cap of epochs and the pools of a proxy."""
    own = ["--weights", json.dumps(weights)] if weights else []
    return [*own, "--max-epochs", cap, "--tokens", HERE / "tiny_pools.csv", "--run-tokens", str(TOKENS)]


def weights_of(wanted: list[str], part: float) -> dict[str, float]:
    """`part` of the objective for the wanted domains together, the rest for the others."""
    others = [domain for domain in read_table(HERE / "tiny_pools.csv")["domain"] if domain not in wanted]
    weights = dict.fromkeys(wanted, part / len(wanted))
    return weights | (dict.fromkeys(others, (1 - part) / len(others)) if part < 1 else {})


# What was measured


def collect() -> None:
    """The tables of all finished runs, and what rounds promised, beside this file; rows of runs that
    are not among the results stay as they are.
    """
    if not [*RESULTS.glob("runs/*/*/run.json"), *RESULTS.glob("swarm/*/state/*/*/run.json")]:
        return
    subprocess.run([sys.executable, HERE.parent / "proof/collect_runs.py", RESULTS, "--out", HERE], check=True)
    rows = []
    for path in sorted((RESULTS / "decided").glob("*_*.report.json")):
        search, number = path.name.removesuffix(".report.json").rsplit("_", 1)
        report = read_json(path)
        rows += [
            (search, int(number), f"{search}_round{number}", one["promised"], one["deviation"], one["expected_gain"])
            for one in report["proposals"]
        ]
    if rows:
        names = ["search", "round", "mixture", "promised", "deviation", "expected_gain"]
        table, path = pl.DataFrame(rows, names, orient="row"), HERE / "rounds.csv"
        if path.is_file():
            earlier = pl.read_csv(path, schema=table.schema)
            table = pl.concat([table, earlier.join(table, on=["search", "round"], how="anti")])
        write_table(table.sort("search", "round"), path)


def tables(name: str, mixtures: list[str]) -> tuple[Path, Path]:
    """Losses and mixtures of the first seed of some runs."""
    folder = RESULTS / "decided" / name
    losses = read_table(HERE / "tiny.csv").filter(pl.col("seed") == FIRST, pl.col("mixture").is_in(mixtures))
    shares = read_table(HERE / "tiny_mixtures.csv").filter(pl.col("mixture").is_in(mixtures))
    missing = set(mixtures) - set(losses["mixture"])
    if missing:
        sys.exit(f"no losses of {', '.join(sorted(missing))}")
    for table, path in ((losses, folder / "losses.csv"), (shares, folder / "mixtures.csv")):
        write_table(table, path)
    return folder / "losses.csv", folder / "mixtures.csv"


def lowest(mixtures: list[str], weights: dict[str, float]) -> str:
    """The mixture with the lowest objective at the last step of its first seed."""
    losses = read_table(HERE / "tiny.csv").filter(
        pl.col("seed") == FIRST, pl.col("step") == int(STEP), pl.col("mixture").is_in(mixtures)
    )
    weight = pl.col("domain").replace_strict(weights, default=0.0) if weights else pl.lit(1.0)
    scores = (
        losses.with_columns(weight=weight)
        .group_by("mixture")
        .agg(objective=(pl.col("loss") * pl.col("weight")).sum() / pl.col("weight").sum())
    )
    return scores.sort("objective", "mixture")["mixture"][0]


def swarm_names() -> list[str]:
    return [f"swarm_{number:04}" for number in range(1, PLAN["blocks"]["A"]["draws"] + 1)]


def train(model: str, mixtures: list[str], seeds: list[int] | None = None) -> None:
    """Train mixtures, with the first seed unless others are named, and collect the tables."""
    for seed in seeds or [FIRST]:
        if left := [mixture for mixture in mixtures if not kept(model, mixture, seed)]:
            snakemake(*runs(model, left, seed))


def kept(model: str, mixture: str, seed: int) -> bool:
    """Whether the tables beside this file have a whole run."""
    path = HERE / f"{model}.csv"
    ends = {"mixture": mixture, "seed": seed, "step": PLAN["runs"][model]["steps"]}
    return path.is_file() and len(read_table(path).filter(**ends)) > 0


def runs(model: str, mixtures: list[str], seed: int = 0) -> list[Path]:
    ending = f"@{seed}" if seed not in (0, FIRST) else ""
    return [RESULTS / f"runs/{model}/{mixture}{ending}/losses.parquet" for mixture in mixtures]


def snakemake(*targets: Path) -> None:
    """Make the targets on one core, with the mixtures decided so far, and collect the tables."""
    known = HERE / "mixtures.json"
    own = {path.stem: str(path) for path in sorted(MIXTURES.glob("*.csv"))}
    write_json(known, {"datasets": {"proof2": {"mixture_files": own} if own else {}}})
    subprocess.run(
        ["snakemake", "--cores", "1", "--rerun-triggers", "mtime", "--configfile", ROOT / "resources/examples/proof/registered.yaml",
         known, "--", *targets], check=True, cwd=ROOT,
    )  # fmt: skip
    collect()


def script(name: str, *flags) -> None:
    subprocess.run([sys.executable, SCRIPTS / name, *map(str, flags)], check=True)


if __name__ == "__main__":
    main()
