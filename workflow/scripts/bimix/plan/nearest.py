"""What a file may have been meant to be that no rule makes."""

from difflib import get_close_matches
from itertools import chain

from bimix.plan.targets import targets

SHOWN = 2  # names that are much like the one given
ALIKE = 0.75  # of 1, by difflib


def nearest(config: dict, path: str) -> str:
    """A sentence on a target that no rule makes, with those that are much like it; of a dataset
    that there is not, with its names.
    """
    folder, _, rest = path.partition("/")
    dataset, _, name = rest.partition("/")
    datasets = list(config["datasets"])
    if folder != "results" or not name:
        return f"No rule to produce {path}: files are named as in results/{config['run'][0]}/summary.txt."
    if dataset not in datasets:
        near = get_close_matches(dataset, datasets, 1, ALIKE)
        meant = f"; did you mean {near[0]}?" if near else "."
        return f"No rule to produce {path}: no dataset is called {dataset}{meant} There are: {', '.join(datasets)}."
    files = {file.removeprefix(f"results/{dataset}/"): file for file in known(config, dataset)}
    begin = [short for short in files if short.startswith(name.rpartition(".")[0] or name)]
    near = [files[short] for short in (begin or get_close_matches(name, files, SHOWN, ALIKE))[:SHOWN]]
    meant = f"did you mean {' or '.join(near)}?" if near else "docs/results.md lists what there is."
    return f"No rule to produce {path}: {meant}"


def known(config: dict, dataset: str) -> list[str]:
    """The files of a dataset that a user may ask for by name: those of its page of results, its
    mixtures and their runs.
    """
    block, folder = config["datasets"][dataset], f"results/{dataset}"
    groups = [(block["optimum"]["model"], names) for names in block["groups"].values() if isinstance(names, list)]
    groups.append((block["compare"]["model"], block["compare"]["mixtures"]))
    runs = [(model, name) for model, names in groups for name in names]
    files = [f"{folder}/summary.txt", f"{folder}/plan.csv", *chain.from_iterable(targets(config, dataset).values())]
    files += [f"{folder}/mixtures/{name}.json" for _, name in runs]
    files += [f"{folder}/runs/{model}/{name}/losses.parquet" for model, name in runs if "observations" not in block]
    return list(dict.fromkeys(files))
