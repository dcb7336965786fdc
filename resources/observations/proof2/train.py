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
import subprocess
import sys
from pathlib import Path

import polars as pl

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from registered import SCRIPTS, Trainings, write_joined

from bimix.outputs import write_json
from bimix.tables import read_json, read_table

HERE = Path(__file__).resolve().parent
PROOF = Trainings(HERE, HERE / "tiny_pools.csv")
PLAN, RESULTS = PROOF.plan, PROOF.results
CAP = PLAN["max_epochs"]
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
        triples = PROOF.draw_triples(options.commit, "t", [PLAN["triples"]["not"]])
        own = options.triples or list(triples)
        answers = {name: triple_block(name, triples[name]) for name in own}
        if options.until > "B" and not options.triples:
            plain_block()
        if options.until > "C":
            larger_block(next(iter(triples)), answers)
    PROOF.collect()


def swarm() -> None:
    """Block A: 64 draws, and what needs no triple: the entropies, the reference, the rules."""
    drawn = (
        []
        if all(PROOF.kept("tiny", name, FIRST) for name in swarm_names())
        else [RESULTS / "losses/tiny/swarm.parquet"]
    )
    names = [name for name in PLAN["blocks"]["A"]["also"] if not PROOF.kept("tiny", name, FIRST)]
    PROOF.snakemake(*drawn, PROOF.prior, PROOF.reference, *PROOF.runs("tiny", names, FIRST))


def triple_block(name: str, wanted: list[str]) -> dict[str, str]:
    """Block B of a triple: {"hand_I": best rule by hand, "I": answer, ..., "rival": best rival}."""
    path = HERE / f"{name}_answers.json"
    if path.is_file() and "rival" in read_json(path):
        return read_json(path)
    objectives = {objective: PROOF.weights_of(wanted, objective) for objective in PLAN["objectives"]}
    hand = [f"{name}_{rule}" for rule in PLAN["blocks"]["B"]["by_hand"]]
    for mixture in hand:
        rule = mixture.removeprefix(f"{name}_")
        PROOF.decide(mixture, lambda out, rule=rule: PROOF.by_hand(rule, wanted, out))
    PROOF.train("tiny", hand)
    answers = {}
    for objective, weights in objectives.items():
        answers[objective] = search(f"{name}_{objective}", hand, weights)
        answers[f"hand_{objective}"] = lowest(hand, weights)
    rivals = [f"{name}_{rival}" for rival in PLAN["blocks"]["B"]["rivals"]]
    for rival in PLAN["blocks"]["B"]["rivals"]:
        one_shot(name, rival, objectives["I"])
    PROOF.train("tiny", rivals)
    answers["rival"] = lowest(rivals, objectives["I"])
    PROOF.train("tiny", sorted(set(answers.values())), FRESH)
    write_json(path, answers)
    return answers


def plain_block() -> None:
    """Block C: all domains weigh the same."""
    if (HERE / "c_answers.json").is_file():
        return
    block, weights = PLAN["blocks"]["C"], {}
    rivals = [f"c_{rival}" for rival in block["rivals"]]
    for rival in block["rivals"]:
        one_shot("c", rival, weights)
    PROOF.train("tiny", [*block["start"], *rivals])
    answer = search("c", block["start"], weights)
    PROOF.train("tiny", sorted({"uniform", answer, lowest(rivals, weights)}), FRESH)
    write_json(HERE / "c_answers.json", {"C": answer, "rival": lowest(rivals, weights)})


def larger_block(name: str, answers: dict[str, dict[str, str]]) -> None:
    """Block D: the first triple's answers on the larger model."""
    own = answers[name]
    mixtures = {PLAN["reference"], f"{name}_mariner", *(own[key] for key in ("I", "II", "hand_I", "hand_II"))}
    PROOF.train("larger", sorted(mixtures), [FIRST, *PLAN["blocks"]["D"]["fresh"]])


# How mixtures are decided


def one_shot(name: str, rival: str, weights: dict[str, float]) -> None:
    """Decide the optimum of a law fitted once: `bimix_4` is the paper's law at a cap of four epochs,
    from the entropies; the others have the swarm.
    """
    law, _, cap = rival.partition("_")
    runs = PLAN["blocks"]["A"]["entropies"] if law == "bimix" else swarm_names()
    mixture = f"{name}_{rival}"

    def make(out: Path) -> None:
        PROOF.optimum(PROOF.fit(mixture, law, {HERE: runs}), weights, float(cap or CAP), out)

    PROOF.decide(mixture, make)


def search(name: str, start: list[str], weights: dict[str, float]) -> str:
    """The answer of a search: all its rounds are run, whatever is expected of them."""
    rounds, known = [], list(start)
    for number in range(1, PLAN["blocks"]["B"]["rounds"] + 1):
        mixture = f"{name}_round{number}"
        rounds.append(mixture)
        PROOF.decide(mixture, lambda out, number=number: _propose(name, known, weights, number, out))
        PROOF.train("tiny", [mixture])
        known.append(mixture)
    report = _propose(name, known, weights, len(rounds) + 1, None)
    return report["best"]


def _propose(name: str, known: list[str], weights: dict[str, float], number: int, out: Path | None) -> dict:
    losses, mixtures = PROOF.tables(f"search/{name}_{number}", {HERE: known})
    table, report = RESULTS / f"decided/{name}_{number}.csv", RESULTS / f"decided/{name}_{number}.report.json"
    flags = [
        "--losses", losses, "--mixtures", mixtures, "--prior", PROOF.prior, "--step", PROOF.step,
        *PROOF.asked(weights, CAP), "--least", LEAST, "--round", str(number), "--out", table, "--report", report,
    ]  # fmt: skip
    for distance in DISTANCES:  # nearer to the runs only where no mixture is left farther away
        command = [sys.executable, SCRIPTS / "propose_round.py", *map(str, flags), "--distance", distance]
        if subprocess.run(command, check=distance == DISTANCES[-1]).returncode == 0:
            break
    keep_rounds()
    if out is not None:
        write_json(out, dict(read_table(table).select("domain", "proportion").iter_rows()))
    return read_json(report)


def keep_rounds() -> None:
    """What rounds promised, beside this file; rows of rounds that are not among the results stay as they are."""
    rows = []
    for path in sorted((RESULTS / "decided").glob("*_*.report.json")):
        search, number = path.name.removesuffix(".report.json").rsplit("_", 1)
        report = read_json(path)
        rows += [
            (search, int(number), f"{search}_round{number}", one["promised"], one["deviation"], one["expected_gain"])
            for one in report["proposals"]
        ]
    names = ["search", "round", "mixture", "promised", "deviation", "expected_gain"]
    write_joined(pl.DataFrame(rows, names, orient="row"), HERE / "rounds.csv", "search", "round")


def lowest(mixtures: list[str], weights: dict[str, float]) -> str:
    """The mixture with the lowest objective at the last step of its first seed."""
    losses = read_table(HERE / "tiny.csv").filter(
        pl.col("seed") == FIRST, pl.col("step") == int(PROOF.step), pl.col("mixture").is_in(mixtures)
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


if __name__ == "__main__":
    main()
