"""Everything that a dataset's run makes.

All functions but `wanted_datasets` take the checked and completed config. Paths are relative to the
folder of `results`.
"""

from collections.abc import Iterable

from bimix.laws.table import LAWS
from bimix.plan.optimum import objective_reference, optimum_run_tokens
from bimix.plan.pools import token_table
from bimix.plan.runs import check_compared, fitted_size, has_intervals, large_runs, observes_sizes, prior_table

LEARNING_LEFT = 3  # mixtures that a learning curve leaves to be predicted, at least


def optimised_laws(config: dict, dataset: str) -> list[str]:
    """Laws that are fitted to the group under `optimum`; to models of several sizes only those over
    sizes.
    """
    several = "models" in config["datasets"][dataset]["optimum"]
    return [law for law in config["laws"]["optimise"] if LAWS[law].over_sizes or not several]


def resampled_laws(config: dict, dataset: str) -> list[str]:
    """Laws whose optimum a bootstrap or a path follows.

    Either takes hundreds of optima. Where each is the best of 100,000 simulated mixtures, as
    RegMix's are, that takes hours.
    """
    return [law for law in optimised_laws(config, dataset) if LAWS[law].optimum != "simulated"]


def explored(config: dict, dataset: str) -> dict[str, list[str]]:
    """What the page to play with is made of, of the laws that it draws."""
    made = targets(config, dataset)
    drawn = [LAWS[law].drawn for law in optimised_laws(config, dataset)]
    files = {name: made[name] for name in ("reference", "mixtures", "tokens", "intervals")}
    files["compared"] = objective_reference(config, dataset)
    for name in ("coefficients", "optimised"):
        files[name] = [path for path, one in zip(made[name], drawn, strict=True) if one]
    return files


def explored_run_tokens(config: dict, dataset: str) -> int | str:
    """Tokens of the run that the page foretells, as of the optimum of its first law."""
    first = next(law for law in optimised_laws(config, dataset) if LAWS[law].drawn)
    return optimum_run_tokens(config, dataset, first)


def targets(config: dict, dataset: str) -> dict[str, list[str]]:
    """Files by what the page of results reads them as.

    It only lists `figures` and only waits for what is `further`. What there are too few runs, steps
    or held-out groups for is left out; of a law over sizes, what needs one size and its steps.
    """
    block, laws = config["datasets"][dataset], optimised_laws(config, dataset)
    folder = f"results/{dataset}"
    model, group = block["optimum"]["model"], block["optimum"]["group"]
    groups = dict.fromkeys([group, *block["held_out"]])

    def fits(name: str, of: Iterable[str]) -> list[str]:
        return [f"{folder}/laws/{model}/{law}/{group}/{name}" for law in of]

    def figures(kind: str, of: Iterable[str]) -> list[str]:
        return [f"{folder}/figures/{kind}_{model}_{law}_{group}.svg" for law in of]

    check_compared(config, dataset)
    runs, steps = fitted_size(config, dataset)
    several = block["optimum"].get("models", [])
    sized = several or observes_sizes(config, dataset)  # steps and shares of one size are not drawn then
    resampled = resampled_laws(config, dataset) if has_intervals(config, dataset) else []
    compared = not sized  # scores of laws are of one size
    learning = compared and runs >= min(config["laws"]["learning"]["counts"]) + LEARNING_LEFT
    entropy = ["figures/entropy.svg", "figures/entropy_curves.svg"] if "corpus" in block else []
    prior = [f"{folder}/figures/cross_entropy.svg"] if prior_table(config, dataset) else []
    answers = "downstream" in block
    pareto = bool("pareto" in block["optimum"] and resampled_laws(config, dataset))
    tables = ["comparison"] if several else ["extrapolation", "generalization", "comparison"]
    tables += ["laws", "complexity"] if compared else []
    tables += ["downstream"] if answers else []
    tables += ["pareto"] if pareto else []
    large = laws if large_runs(config, dataset) else []
    # a fitted group's figure has the held-out ones beside it, of which a law over sizes has no runs
    fitted = [] if sized and (block["held_out"] or not several) else several or [model]

    explores = any(LAWS[law].drawn for law in laws) and "stage" not in block["optimum"]

    def listed(name: str) -> list[str]:
        return [f"{folder}/tables/{name}.csv"] if name in tables else []

    return {
        "coefficients": fits("coefficients.json", laws),
        "optimised": [f"{folder}/mixtures/{law}.json" for law in laws],
        "reference": [f"{folder}/mixtures/{block['compare']['mixtures'][0]}.json"],
        "extrapolation": listed("extrapolation"),
        "generalization": listed("generalization"),
        "comparison": listed("comparison"),
        "laws": listed("laws"),
        "scores": [f"{folder}/laws/{model}/comparison/{group}.csv"] if compared else [],
        "compared": [f"{folder}/losses/{block['compare']['model']}/compare.parquet"],
        "proxies": [] if several else [f"{folder}/losses/{model}/{name}.parquet" for name in groups],
        "mixtures": [f"{folder}/mixtures/groups/{name}.parquet" for name in ("compare", *groups)],
        "tokens": token_table(config, dataset),
        "sizes": fits("sizes.csv", large),
        "intervals": fits("intervals.csv", resampled),
        "answers": listed("downstream"),
        "explore": [f"{folder}/explore.html"] if explores else [],
        "further": [
            *(f"{folder}/tables/{name}.html" for name in tables),
            *([f"{folder}/tables/entropy_choices.csv"] if "corpus" in block else []),
            *([f"{folder}/search/{model}/answer.txt", f"{folder}/mixtures/found.json"] if "search" in block else []),
        ],
        "figures": [
            f"{folder}/figures/mixtures.svg",
            *(f"{folder}/{name}" for name in entropy),
            *prior,
            *figures("steps", [] if sized else laws),
            *figures("proportions", [] if sized else laws),
            *figures("predictions", laws if block["held_out"] and not sized else []),
            *figures("optimum", resampled),
            *figures("sizes", large),
            *figures("path", resampled_laws(config, dataset) if steps > 1 else []),
            *([f"{folder}/figures/pareto.svg"] if pareto else []),
            *([f"{folder}/figures/rounds.svg"] if "search" in block else []),
            *([f"{folder}/figures/laws_{model}_{group}.svg"] if compared else []),
            *([f"{folder}/figures/learning_{model}_{group}.svg"] if learning else []),
            *(f"{folder}/figures/perplexity_{name}_{group}.svg" for name in fitted),
            f"{folder}/figures/perplexity_{block['compare']['model']}_compare.svg",
            *([f"{folder}/figures/downstream.svg", f"{folder}/figures/downstream_tasks.svg"] if answers else []),
        ],
    }


def all_targets(config: dict) -> list[str]:
    """Everything for the datasets that `run` names: pages of results and all that these list."""
    files = [f"results/{dataset}/summary.txt" for dataset in config["run"]]
    return files + [file for dataset in config["run"] for made in targets(config, dataset).values() for file in made]


def wanted_datasets(config: dict, words: Iterable[str]) -> list[str]:
    """Datasets of which everything is to be built, given the words of the command line: their files
    must be there.

    None where single targets are named, whose jobs say themselves what they need, or where a folder
    is unlocked: perhaps for single targets. The config may be unchecked.
    """
    if any(word.startswith("results/") or word == "--unlock" for word in words):
        return []
    run = config.get("run") or []
    return [run] if isinstance(run, str) else run


def named_datasets(words: Iterable[str]) -> list[str]:
    """Datasets of the single targets that a command line names."""
    return [word.split("/")[1] for word in words if word.startswith("results/")]
