"""Measure what few runs tell: errors beside `bimix`, what a prior from text gains, coverage of
intervals, the winner's curse (no test: run it by hand).

python tests/benchmarks/bench_few_runs.py folder {errors,prior,coverage,curse} ... -> tables on
standard output; `folder` holds regmix/ and mixinglaws/ (public runs of RegMix and of Ye et al.),
for `prior` also text, pile22/ and slimpajama7/ (jsonl.zst by domain), and
tokenizer/20B_tokenizer.json. Each draw fits some runs and looks at the others, at the last step.
"""

import hashlib
import json
import re
from collections import Counter
from dataclasses import replace
from itertools import pairwise

import bench
import fsspec
import numpy as np
import polars as pl
from public_tables import mixing_laws, regmix
from scipy.stats import t
from tokenizers import Tokenizer

from bimix.corpus.estimators import cross_entropies, thin
from bimix.judge.errors import rank_correlation
from bimix.laws import fitted as laws
from bimix.observations.observations import Observations
from bimix.observations.prior import centred
from bimix.optimum.intervals import intervals, left_out
from bimix.optimum.objective import Objective, average
from bimix.optimum.optimum import Sought


def tables(folder) -> dict[str, tuple[Observations, Observations | None]]:
    """{name: runs to draw from, and runs to look at (None: those that were not drawn)}."""
    ye = folder / "mixinglaws", "RedPajama", "70M", 30_000
    own = mixing_laws(*ye, proposed=True)
    positive = own.take(np.nonzero((own.proportions > 0).all(axis=1))[0])
    return {
        "SlimPajama 70M, 6 own losses, no zeros": (positive, None),
        "SlimPajama 70M, 6 own losses": (own, None),
        "SlimPajama 70M, 22 losses": (mixing_laws(*ye, each=True, proposed=True), None),
        "RegMix 1M": tuple(regmix(folder / "regmix", split, "1m") for split in ("train", "test")),
    }


def drawn(sets, counts, draws):
    """(name, number of runs, each draw's runs to fit and to look at), of tables with enough."""
    for name, (runs, others) in sets.items():
        for count in counts:
            if others is not None or len(runs.mixtures) >= count + 4:
                orders = [np.random.default_rng([draw, count]).permutation(len(runs.mixtures)) for draw in range(draws)]
                yield name, count, [(runs.take(one[:count]), others or runs.take(one[count:])) for one in orders]


def errors(sets, counts, draws):
    print("mean relative error of unseen mixtures, %, mean of the draws (worst), most by which transfer is worse")
    for name, count, parts in drawn(sets, counts, draws):
        both = (sets[name][0].proportions > 0).all()
        found = [
            [
                100 * np.nanmean(np.abs(laws.predict(laws.fit(law, fitted), new.proportions, [1]) / new.losses - 1))
                for law in (("bimix", "transfer") if both else ("transfer",))
            ]
            for fitted, new in parts
        ]
        rows = np.array(found)
        cells = [f"{mean:5.2f} ({worst:5.2f})" for mean, worst in zip(rows.mean(0), rows.max(0), strict=True)]
        gap = f"{(rows[:, 1] - rows[:, 0]).max():+.2f}" if both else ""
        print(f"{name:40s} {count:3d}  {'   '.join(cells)}  {gap}", flush=True)


# Files of text by what the tables call them, letters and digits only.
ALIASES = {
    "books": "book",
    "pg19": "gutenbergpg19",
    "enron": "enronemails",
    "uspto": "usptobackgrounds",
    "pubmedabstract": "pubmedabstracts",
}
HELD_OUT, CUT = 10, 8000  # a tenth of the pieces of so many characters is held out


def plain(name):
    return re.sub("[^a-z0-9]", "", name.lower())


def counted(path, tokenizer):
    """Pairs of tokens of the training and of the held-out text of a file of documents."""
    with fsspec.open(str(path), "rt", compression="zstd", encoding="utf-8") as lines:
        texts = [json.loads(line)["text"] for line in lines]
    pieces = [text[start : start + CUT] for text in texts for start in range(0, len(text), CUT)]
    counts = Counter(), Counter()
    for piece, encoded in zip(pieces, tokenizer.encode_batch(pieces), strict=True):
        held_out = int(hashlib.sha256(piece.encode()).hexdigest()[:8], 16) % HELD_OUT == 0
        counts[held_out].update(first << 32 | second for first, second in pairwise([*encoded.ids, 0]))
    return [
        (np.array(sorted(one), dtype=np.uint64), np.array([one[code] for code in sorted(one)], dtype=np.uint64))
        for one in counts
    ]


def told(folder, runs, trained_on, cache):
    """Cross-entropies (d, m) of the loss domains' text under models of the training domains."""
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer" / "20B_tokenizer.json"))

    def pairs(name, places):
        for place in places:
            files = {plain(file.name.removesuffix(".jsonl.zst")).removeprefix("redpajama"): file for file in place}
            file = files.get(plain(name)) or files.get(ALIASES.get(plain(name), ""))
            if file:
                if file not in cache:
                    cache[file] = counted(file, tokenizer)
                return cache[file]
        raise SystemExit(f"no file of text of {name}")

    def places(*names):
        return [sorted((folder / name).glob("*.jsonl.zst")) for name in names]

    models = [pairs(name, places(trained_on))[0] for name in runs.domains]
    least, draw = min(int(counts.sum()) for _, counts in models), np.random.default_rng(0)
    texts = [pairs(name, places(trained_on, "pile22"))[1] for name in runs.loss_domains]
    vocabulary = tokenizer.get_vocab_size()
    return cross_entropies(texts, [lambda one=one: thin(one, least, draw) for one in models], vocabulary)


def prior(sets, counts, draws, folder):
    """`transfer` without a prior, with that of the text, and with one of permuted domains."""
    print("error of unseen mixtures, %, mean (worst draw), Spearman x 100: without prior, with it, with a wrong one")
    cache, asked = {}, {name: one for name, one in sets.items() if "no zeros" not in name}
    for name, count, parts in drawn(asked, counts, draws):
        runs, rows = sets[name][0], []
        entropies = told(folder, runs, "pile22" if name.startswith("RegMix") else "slimpajama7", cache)
        own = [runs.domains.index(domain) if domain in runs.domains else -1 for domain in runs.loss_domains]
        for draw, (fitted, new) in enumerate(parts):
            order = np.random.default_rng(draw).permutation(len(runs.domains))
            row = []
            for gaps in (None, centred(entropies, own), centred(entropies[:, order], own)):
                guess = laws.predict(laws.fit("transfer", replace(fitted, gaps=gaps)), new.proportions, [1])[:, 0]
                truth = new.losses[:, 0]
                row.append((100 * np.nanmean(np.abs(guess / truth - 1)), rank_correlation(truth, guess).mean()))
            rows.append(row)
        cells = [
            f"{mean:5.2f} ({worst:5.2f}) {100 * rank:5.1f}"
            for (mean, rank), (worst, _) in zip(np.mean(rows, axis=0), np.max(rows, axis=0), strict=True)
        ]
        print(f"{name:40s} {count:3d}  {'   '.join(cells)}", flush=True)


def coverage(sets, counts, draws):
    """Coverage of 90 % intervals on new runs, %: losses (least, most), averages, gains."""
    print("inside 90 % intervals by left-out runs: losses (domains), average, gain")
    for name, count, parts in drawn(sets, counts, draws):
        inside = {"loss": [], "average_loss": [], "gain": []}
        for fitted, others in parts:
            new = others.take(np.arange(min(len(others.mixtures), 64)))
            document = laws.fit("transfer", fitted)
            spread, m = left_out(document, fitted, 1), len(new.domains)
            mixtures = dict(zip(map(str, range(len(new.mixtures))), new.proportions, strict=True))
            table = intervals(Sought(document, 1, Objective(), np.zeros(m), np.ones(m)), 0.9, mixtures, None, spread)
            truths = {"loss": new.losses[:, 0], "average_loss": new.losses[:, 0].mean(1)[:, None]}
            for quantity, truth in truths.items():
                own = table.filter(pl.col("quantity") == quantity)
                low, high = (own[end].to_numpy().reshape(truth.shape) for end in ("low", "high"))
                inside[quantity].append((low <= truth) & (truth <= high))
            guess = table.filter(pl.col("quantity") == "average_loss")["estimate"].to_numpy()
            inside["gain"].append(gains_inside(spread, guess, new))
        each = 100 * np.concatenate(inside["loss"]).mean(axis=0)
        mean, gain = (100 * np.mean(np.concatenate(inside[one])) for one in ("average_loss", "gain"))
        held = f"{each.mean():4.0f} ({each.min():3.0f} to {each.max():3.0f})"
        print(f"{name:40s} {count:3d}  {held}  {mean:4.0f}  {gain:4.0f}", flush=True)


def gains_inside(left, guess, new):
    """Whether the gain of each new run over the first lies inside its interval."""
    truth = new.losses[:, 0].mean(axis=1)
    deviation, freedom = left.spread_of_average(np.ones(new.losses.shape[2]))
    variance = deviation**2 + left.excess(new.proportions, 1, np.ones(new.losses.shape[2]))
    width = t.ppf(0.95, freedom) * np.sqrt(variance[1:] * guess[1:] ** 2 + variance[0] * guess[0] ** 2)
    return np.abs((truth[0] - truth[1:]) - (guess[0] - guess[1:])) <= width


def curse(sets, counts, draws):
    """The best of all other runs by prediction, its gain over their mean: predicted, measured."""
    print(
        "gain of the best predicted of the other runs over their mean, % of the loss: predicted, measured, ratio of the means"
    )
    for name, count, parts in drawn(sets, counts, draws):
        rows = []
        for fitted, new in parts:
            equal = np.ones(new.losses.shape[2])
            guess = average(laws.predict(laws.fit("transfer", fitted), new.proportions, [1])[:, 0], equal)
            truth = average(new.losses[:, 0], equal)
            best = guess.argmin()
            rows.append((1 - guess[best] / guess.mean(), 1 - truth[best] / truth.mean()))
        predicted, measured = 100 * np.mean(rows, axis=0)
        print(f"{name:40s} {count:3d}  {predicted:5.2f}  {measured:5.2f}  {measured / predicted:5.2f}", flush=True)


def main(argv=None):
    parser = bench.parser(__doc__, "folder", numbers={"--counts": [4, 8, 16, 30], "--draws": 8})
    parser.add_argument("tables", nargs="+", choices=["errors", "prior", "coverage", "curse"])
    options = parser.parse_args(argv)
    sets = tables(options.folder)
    for table in options.tables:
        if table == "prior":
            prior(sets, options.counts, options.draws, options.folder)
        else:
            {"errors": errors, "curse": curse, "coverage": coverage}[table](sets, options.counts, options.draws)


if __name__ == "__main__":
    main()
