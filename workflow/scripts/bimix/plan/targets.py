"""Everything that a dataset's run makes, and which file a name of none may have meant."""

from collections.abc import Collection, Iterable, Mapping
from difflib import get_close_matches
from itertools import chain

from bimix.corpus.files import missing_sentence
from bimix.mixtures.names import known_names
from bimix.plan.dataset import Dataset
from bimix.plan.inputs import (
    answer_prior,
    check_compared,
    hand_reference,
    large_runs,
    prior,
    token_table,
)
from bimix.plan.shards import missing

LEARNED = 8 + 3  # runs of a learning curve of three points, 4, 6 and 8, with those that it leaves to be predicted
ROUNDS = 3  # of a search that a figure shows
SHOWN = 2  # names that are much like the one given
ALIKE = 0.75  # of 1, by difflib


def targets(dataset: Dataset) -> dict[str, list[str]]:
    """Files by what the page of results reads them as.

    It only lists `figures` and only waits for what is `further`. What there are too few runs, steps
    or held-out groups for is left out; of a law over sizes, what needs one size and its steps.
    """
    block, laws, folder = dataset.block, dataset.optimised_laws, dataset.folder
    model, group, held_out = block["optimum"]["model"], block["optimum"]["group"], block["held_out"]
    groups = dict.fromkeys([group, *held_out])

    def fits(name: str, of: Iterable[str]) -> list[str]:
        return [f"{folder}/laws/{model}/{law}/{group}/{name}" for law in of]

    def figures(kind: str, of: Iterable[str]) -> list[str]:
        return [f"{folder}/figures/{kind}_{model}_{law}_{group}.svg" for law in of]

    check_compared(dataset)
    runs, _ = dataset.fitted_size()
    several = block["optimum"].get("models", [])
    compared = not (several or dataset.observes_sizes)  # scores, steps and shares are of one size
    resampled = dataset.resampled_laws if dataset.has_intervals else []
    learning = compared and runs >= LEARNED
    has_corpus, answers, search = "corpus" in block, "downstream" in block, "search" in block
    scores = [] if several else ["extrapolation", *(["generalization"] if held_out else [])]
    tables = [*scores, "comparison"]
    tables += ["laws", "complexity"] if compared else []
    tables += ["downstream"] if answers else []
    large, proxies = laws if large_runs(dataset) else [], [] if several else dict.fromkeys([group, *held_out])
    # a fitted group's figure has the held-out ones too, of which a law over sizes has no runs
    fitted = (several or [model]) if compared or (several and not held_out) else []

    def drawn(*names: str, there: object = True) -> list[str]:
        return [f"{folder}/figures/{name}.svg" for name in names] if there else []

    def listed(name: str) -> list[str]:
        return [f"{folder}/tables/{name}.csv"] if name in tables else []

    return {
        "coefficients": fits("coefficients.json", laws),
        "optimised": [dataset.mixture(law) for law in laws],
        "reference": [dataset.mixture(dataset.compared[0])],
        "laws": listed("laws"),
        "tables": [*(f"{folder}/tables/{name}.csv" for name in tables), *fits("sizes.csv", large)],
        "scores": [f"{folder}/laws/{model}/comparison/{group}.csv"] if compared else [],
        "compared": [f"{folder}/losses/{dataset.large}/compare.parquet"],
        "proxies": [f"{folder}/losses/{model}/{name}.parquet" for name in proxies],
        "mixtures": [f"{folder}/mixtures/groups/{name}.parquet" for name in ("compare", *groups)],
        "tokens": token_table(dataset),
        "intervals": fits("intervals.csv", resampled),
        "answers": listed("downstream"),
        "search": [f"{folder}/search/{model}/answer.txt"] if search else [],
        "further": [
            *(f"{folder}/tables/{name}.html" for name in tables),
            *([dataset.mixture("found")] if search else []),
        ],
        "figures": [
            *drawn("mixtures"),
            *drawn("entropy", there=has_corpus),
            *drawn("cross_entropy", there=prior(dataset)),
            *figures("steps", laws if compared else []),
            *figures("proportions", laws if compared else []),
            *figures("predictions", laws if held_out and compared else []),
            *figures("optimum", resampled),
            *figures("sizes", large),
            *drawn("rounds", there=search and block["search"]["rounds"] >= ROUNDS),
            *drawn(f"learning_{model}_{group}", there=learning),
            *drawn(*(f"perplexity_{one}_{group}" for one in fitted)),
            *drawn(f"perplexity_{dataset.large}_compare"),
            *drawn("downstream", "downstream_tasks", there=answers),
        ],
    }


def summarised(dataset: Dataset) -> dict[str, list[str]]:
    """Inputs of the page of results."""
    optimum = dataset.block["optimum"]
    return targets(dataset) | {
        "fitted": [f"{dataset.folder}/losses/{optimum['model']}/{optimum['group']}.parquet"],
        "objective_reference": dataset.when("optimum/objective/reference", "results/{dataset}/mixtures/{entry}.json"),
        "prior": answer_prior(dataset),
        "rest": hand_reference(dataset),
        "entropy": [] if dataset.observed else [f"{dataset.folder}/entropy.csv"],
        "validation": [] if dataset.observed else [f"{dataset.folder}/tokens/validation.parquet"],
    }


def all_targets(config: Mapping) -> list[str]:
    """Everything for the datasets that `run` names: pages of results and all that these list."""
    datasets = [Dataset(config, name) for name in config["run"]]
    pages = ("summary.txt", "explore.html", "figures/recommended.svg")
    files = [f"{dataset.folder}/{page}" for dataset in datasets for page in pages]
    return files + [file for dataset in datasets for made in targets(dataset).values() for file in made]


def nearest(datasets: Collection[Dataset], path: str) -> str:
    """A sentence on a target that no rule makes, with those that are much like it; on an input that
    is not there, with all that its dataset lacks.
    """
    for dataset in datasets:
        if "corpus" in dataset.block and path in (lacking := missing(dataset)):
            return str(dataset.fault("", missing_sentence(lacking)))
    files = [file for dataset in datasets for file in nameable(dataset)]
    begin = [file for file in files if file.startswith(path.rpartition(".")[0] or path)]
    near = (begin or get_close_matches(path, files, SHOWN, ALIKE))[:SHOWN]
    meant = f"did you mean {' or '.join(near)}?" if near else "docs/results.md lists what there is."
    return f"No rule to produce {path}: {meant}"


def nameable(dataset: Dataset) -> list[str]:
    """Files that a user may name: those of the page of results, mixtures and their runs."""
    groups = [(dataset.block["optimum"]["model"], names) for names in dataset.groups.values()]
    runs = [(model, name) for model, names in [*groups, (dataset.large, dataset.compared)] for name in names]
    pages = (
        "summary.txt",
        "explore.html",
        "figures/recommended.svg",
        "plan.csv",
        *([] if dataset.observed else ["entropy.csv"]),
    )
    names = [*(name for _, name in runs), *([] if dataset.observed else known_names(dataset, ()))]
    files = [*(f"{dataset.folder}/{page}" for page in pages), *map(dataset.mixture, names)]
    files += chain.from_iterable(targets(dataset).values())
    files += [f"{dataset.folder}/runs/{model}/{name}/losses.parquet" for model, name in runs if not dataset.observed]
    return list(dict.fromkeys(files))
