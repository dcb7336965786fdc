"""A job's files and settings by the config; an input that a dataset lacks is an empty list."""

import json
from collections.abc import Iterable
from glob import iglob
from itertools import chain

from bimix.corpus.files import has_wildcards
from bimix.corpus.tasks import task_files, task_folders
from bimix.laws.table import LAWS, is_optimum
from bimix.mixtures.names import BEST, REWEIGHTED, REWEIGHTING, has_wanted, is_of_search, round_of, wanted_rule
from bimix.plan.dataset import Dataset, observed_rows


def losses(dataset: Dataset, model: str, group: str) -> list[str]:
    """The losses of each run of a group."""
    return [dataset.losses(run) for run in dataset.runs(group, model)]


def compared_tokens(dataset: Dataset) -> int | str:
    """Tokens of a run of the model under `compare`; `none` where it was trained elsewhere."""
    return "none" if dataset.observed else dataset.run_tokens(dataset.large)


def pool_share(dataset: Dataset, group: str | None = None) -> float:
    """The share of every domain's rows that the fitted runs may read; 1 for runs from elsewhere."""
    if dataset.observed:
        return 1.0
    swarm = (group or dataset.block["optimum"]["group"]) == "swarm"
    recipe = dataset.block["swarm"]["training"] if swarm else dataset.block["training"][dataset.proxies[0]]
    return recipe.get("pool_share", 1.0)


def trainer(dataset: Dataset, model: str) -> dict:
    """The block `trainer` of a model without its launch settings."""
    return {key: value for key, value in dataset.config["models"][model].items() if key != "launch"}


def trainer_data(dataset: Dataset, model: str) -> list[str]:
    """The dataset's data.json, where a command reads mixtures in an export format."""
    form = dataset.config["models"][model].get("format")
    return [export_data(dataset, form)] if form else []


def trainer_text(dataset: Dataset) -> list[str]:
    """The text whose change makes a command train again; none where exports have own files."""
    own = "data" in dataset.block.get("export", {})
    return [] if own else [f"{dataset.folder}/tokens/{split}.parquet" for split in ("train", "validation")]


def kept_steps(dataset: Dataset, model: str, run: str) -> str:
    """Steps of a run whose weights answer questions, as 200,400; `none` for other runs."""
    answering = {(one.model, one.name) for one in dataset.answering_runs()}
    return ",".join(map(str, dataset.block["downstream"]["steps"])) if (model, run) in answering else "none"


def task_inputs(dataset: Dataset) -> list[str]:
    """The local files that the tasks of a dataset read."""
    block = dataset.block["downstream"]
    read = task_files(block["tasks"], task_folders(block.get("task_files"))).values()
    paths = [path for path in dict.fromkeys(chain.from_iterable(read)) if "://" not in path]
    there = {path: sorted(iglob(path, recursive=True)) for path in paths if has_wildcards(path)}
    return [file for path in paths for file in there.get(path) or [path]]


def byte_counts(dataset: Dataset) -> list[str]:
    """Byte counts of the compared runs; none for runs from elsewhere or by commands."""
    counted = "corpus" in dataset.block and "shape" in dataset.config["models"][dataset.large]
    return [f"{dataset.folder}/tokens/bytes/{dataset.large}.csv"] if counted else []


def vector_moments(dataset: Dataset) -> list[str]:
    """Second moments of the document vectors of all domains, where the dataset has vectors."""
    domains = dataset.block["domains"] if "vectors" in dataset.block else ()
    return [f"{dataset.folder}/vectors/{domain}.npz" for domain in domains]


def vectors_file(dataset: Dataset) -> str:
    """The model of word vectors: a file of the user's, or trained on the text."""
    return dataset.block["vectors"].get("file", f"{dataset.folder}/vectors/model.bin")


def intervals(dataset: Dataset, model: str, law: str, group: str) -> list[str]:
    """The intervals of a fitted law, if there are enough mixtures for them."""
    return [f"{dataset.folder}/laws/{model}/{law}/{group}/intervals.csv"] if dataset.has_intervals else []


def proposed_in(dataset: Dataset, own: str) -> str:
    """The table with the proposal for a round's mixture."""
    return f"{dataset.folder}/search/{dataset.block['optimum']['model']}/{round_of(own)}/next.csv"


def round_reports(dataset: Dataset, model: str, numbers: Iterable[int]) -> list[str]:
    """The reports of the rounds of a search."""
    return [f"{dataset.folder}/search/{model}/{number}/report.json" for number in numbers]


# Laws and optima


def check_compared(dataset: Dataset) -> None:
    """Errors: no model size has all observed mixtures of `compare`."""
    rows = observed_rows(dataset.block["observations"]["losses"]) if dataset.observed else ()
    names = dataset.compared
    sizes = {name: {size for one, _, size in rows if one == name} for name in names}
    known = [own for own in sizes.values() if own]  # what has no losses is another fault
    if known and not set.intersection(*known):
        lacking = min((name for name in names if sizes[name]), key=lambda name: len(sizes[name]))
        sentence = f"the losses are of models of several sizes, and none has runs of all of {', '.join(names)}:"
        sentence += f" compare mixtures of one size ({lacking} was run with the fewest)."
        raise dataset.fault("compare/mixtures", sentence)


def prior(dataset: Dataset, law: str = "transfer") -> list[str]:
    """The prior's table, where it is computed or given and the config does not turn it off."""
    if not LAWS[law].reads_prior or not dataset.config["laws"].get("prior", True):
        return []
    if "corpus" in dataset.block:
        return [f"{dataset.folder}/cross_entropy.csv"]
    return dataset.brought("cross_entropy")


def asked_size(dataset: Dataset, model: str, law: str = "transfer") -> list[str]:
    """The size of the larger model to optimise for, for a law that can be set to it; else none."""
    optimum = dataset.block["optimum"]
    larger = optimum.get("for", model)
    if not LAWS[law].over_sizes or model != optimum["model"] or model == larger:
        return []
    return [f"{dataset.folder}/sizes/{larger}.json"]


def asked_model(dataset: Dataset) -> str:
    """The model whose losses the laws predict, where it is none of those fitted; else `none`."""
    optimum = dataset.block["optimum"]
    return optimum["for"] if "models" in optimum else "none"


def larger_runs(dataset: Dataset) -> list[str]:
    """The models for `optimum/models` with which a law reads the runs of `compare`, too; none where it
    does, where that model is no other, and where small runs have smaller pools.
    """
    larger = dataset.observed or dataset.large in dataset.proxies or dataset.block.get("simulate_epochs")
    return [] if larger else [*dataset.proxies, dataset.large]


def large_runs(dataset: Dataset) -> bool:
    """Whether the target model of a law over sizes is compared and is none of the fitted ones."""
    if "models" not in dataset.block["optimum"] or dataset.block["optimum"]["for"] != dataset.large:
        return False
    sizes = {name: model.get("shape", model.get("parameters")) for name, model in dataset.config["models"].items()}
    return len(dataset.compared) > 2 and all(sizes[model] != sizes[dataset.large] for model in dataset.proxies)


def token_table(dataset: Dataset) -> list[str]:
    """The table of each domain's tokens; an observed dataset may have none."""
    return dataset.brought("tokens") if dataset.observed else [f"{dataset.folder}/tokens/train.parquet"]


def pool_tokens(dataset: Dataset) -> list[str]:
    """The token table for pools of mixtures; observed mixtures have their own pools."""
    return [] if dataset.observed else token_table(dataset)


def epoch_run_tokens(dataset: Dataset, optimised: str) -> int | str:
    """Tokens of the run in which an optimum's epochs are counted: of the target model, of the large
    one where small runs repeat like it, of the run under `optimum` for a swarm's. Else `none`: they
    follow from the fitted losses.
    """
    block, optimum = dataset.block, dataset.block["optimum"]
    if "for" in optimum or block.get("simulate_epochs"):
        return dataset.run_tokens(optimum.get("for", dataset.large))
    if not dataset.from_swarm(optimised):
        return "none"
    return optimum["step"] * block["training"][optimum["model"]]["batch_rows"] * block["sequence_length"]


# Mixtures


def ranks(dataset: Dataset) -> dict[str, int]:
    """The ranks by search cost of all mixtures in the dataset's groups."""
    return {name: dataset.rank(name) for names in dataset.groups.values() for name in names}


def hand_reference(dataset: Dataset, wanted: str = "wanted_4") -> list[str]:
    """The mixture whose shares a rule by hand uses for the rest: the reference under `compare`, or
    token shares where that is searched, by hand or in stages. None where the rule uses none.
    """
    first = dataset.compared[0]
    if wanted_rule(wanted)[1] != "reference" or dataset.observed or not has_wanted(dataset.block):
        return []
    others = (*BEST, *REWEIGHTING, *dataset.block.get("stages", ()))
    found = is_optimum(first) or wanted_rule(first) or is_of_search(first) or first in others
    return [dataset.mixture("baseline" if found else first)]


def hand_weights(dataset: Dataset) -> str:
    """The weights of all losses, JSON: what is only measured weighs 0 where it has none."""
    weights = dataset.block["optimum"].get("weights", {})
    return json.dumps(weights | {name: 0 for name in dataset.only_measured if name not in weights})


def answer_prior(dataset: Dataset) -> list[str]:
    """The prior of a dataset's laws, for the rules kin of its answer."""
    read = next((law for law in dataset.optimised_laws if LAWS[law].reads_prior), "bimix")
    return prior(dataset, read) if has_wanted(dataset.block) else []


def hand_tokens(dataset: Dataset) -> list[str]:
    """The token table for a rule by hand of an observed dataset. Errors: it names none."""
    if tokens := dataset.brought("tokens"):
        return tokens
    raise dataset.fault("observations", "a rule by hand counts epochs: name a table of domain and tokens as `tokens`.")


def hand_prior(dataset: Dataset, wanted: str) -> list[str]:
    """Cross-entropies between domains, for the rule kin. Errors: observed, and none named."""
    if wanted_rule(wanted)[1] != "kin":
        return []
    if found := dataset.brought("cross_entropy"):
        return found
    raise dataset.fault("observations", f"{wanted} needs a table of cross-entropies as `cross_entropy`.")


def given_mixture(dataset: Dataset, own: str) -> str:
    """A mixture's file: the user's own, or the output of a reweighting."""
    if dataset.source(own).rank == REWEIGHTED:
        return f"{dataset.folder}/reweighting/{dataset.block['reweighting']['model']}/{own}/mixture.json"
    return own_mixture(dataset, own)


def own_mixture(dataset: Dataset, own: str) -> str | None:
    """A mixture's file of the user's; None of one that the workflow makes."""
    return dataset.block.get("mixture_files", {}).get(own)


# Exports


def export_data(dataset: Dataset, format: str) -> str:
    """The data.json of an export: the config's or the dataset's own. Errors: losses have none."""
    if "data" in dataset.block.get("export", {}):
        return dataset.block["export"]["data"]
    if dataset.observed:
        raise dataset.fault("export/data", "an export names the files of each domain: give a file of them.")
    return f"{dataset.folder}/export/{'rows' if format == 'olmo-core' else 'raw'}.json"


def export_tokens(dataset: Dataset) -> list[str]:
    """The token table for the pools of an export, if the config's file does not state them."""
    return [] if "data" in dataset.block.get("export", {}) else token_table(dataset)


def export_run(dataset: Dataset, key: str, mixture: str = "") -> list[int]:
    """Updates (run_steps) or tokens (run_tokens) of an export's run: the config's tokens, else the
    larger model's. None for observed losses, and no updates where the config gives tokens. Errors:
    stages, which begin at updates, with tokens from the config.
    """
    if given := dataset.block.get("export", {}).get("run_tokens"):
        if mixture in dataset.block.get("stages", ()):
            why = f"{mixture} has stages, which begin after updates, and a run of {given:,} tokens has no known number:"
            way = f"take it away, or call `bimix export --run-steps` with {dataset.mixture(mixture)}."
            raise dataset.fault("export/run_tokens", f"{why} {way}")
        return [given] if key == "run_tokens" else []
    if dataset.observed:
        return []
    steps = dataset.block["training"][dataset.large]["steps"]
    return [dataset.run_tokens(dataset.large) if key == "run_tokens" else steps]
