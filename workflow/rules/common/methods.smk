# Where the mixtures of the methods come from: a swarm, a model that reweighs, the optimum of a law.


def from_swarm(dataset, mixture):
    """Whether a mixture is the optimum of a law that is fitted to the dataset's swarm."""
    if "swarm" not in config["datasets"][dataset]:
        return False
    of_law = mixture in SWARM_LAWS and mixture not in config["laws"]["optimise"]
    return of_law or mixture.removesuffix("_swarm") in LAWS and mixture.endswith("_swarm")


def is_swarm(wildcards):
    """Whether the model is the one that the dataset's swarm is trained with."""
    return config["datasets"][wildcards.dataset].get("swarm", {}).get("model") == wildcards.model


def swarm_recipe(wildcards):
    """Training settings of the runs of a swarm: those of its model, but for what the swarm says itself."""
    block = config["datasets"][wildcards.dataset]
    return json.dumps(block["training"][wildcards.model] | block["swarm"].get("training", {}), sort_keys=True)


def swarm_part(wildcards):
    """Mixtures of one part of a swarm, a job's work; parts are numbered from 1."""
    block = config["datasets"][wildcards.dataset]
    together = block["swarm"]["together"]
    return block["groups"]["swarm"][(int(wildcards.part) - 1) * together : int(wildcards.part) * together]


def swarm_tables(name):
    """A function of the wildcards that gives the tables called `name` of all parts of a swarm."""

    def find(wildcards):
        if not is_swarm(wildcards):
            swarm = config["datasets"][wildcards.dataset]["swarm"]["model"]
            refuse(
                f"datasets/{wildcards.dataset}/swarm/model",
                f"the swarm is trained with {swarm!r}, not {wildcards.model!r}.",
            )
        swarm = config["datasets"][wildcards.dataset]["swarm"]
        parts = range(1, -(-swarm["runs"] // swarm["together"]) + 1)
        return [f"results/{wildcards.dataset}/swarm/{wildcards.model}/{part}/{name}.parquet" for part in parts]

    return find


def swarm_gpu(wildcards):
    """One device for each part of a swarm, where the model has any."""
    return min(config["models"][wildcards.model]["launch"]["gpus"], 1)


def swarm_threads(wildcards):
    """CPU threads of one part: those of one process of the model."""
    launch = config["models"][wildcards.model]["launch"]
    return max(launch["threads"] // max(launch["gpus"], 1), 1)


def reweighting_recipe(wildcards):
    """Training settings of a run that reweighs: the model's, with the changes that the block `reweighting` names."""
    block = config["datasets"][wildcards.dataset]
    return json.dumps(block["training"][wildcards.model] | block["reweighting"].get("training", {}), sort_keys=True)


def doremi_reference(pattern):
    """A function of the wildcards: a file of the {reference} that a round of DoReMi is measured against."""

    def find(wildcards):
        first = config["datasets"][wildcards.dataset]["reweighting"]["reference"]
        before = int(wildcards.round) - 1
        return pattern.format(reference=f"doremi_round{before}" if before else first, **wildcards)

    return find


def last_round(wildcards):
    """The round of DoReMi that is the last, as far as its rounds so far can tell."""
    settings = config["datasets"][wildcards.dataset]["reweighting"]
    for number in range(1, settings["doremi"]["rounds"]):
        run = checkpoints.train_doremi.get(dataset=wildcards.dataset, model=settings["model"], round=number)
        if json.loads(Path(run.output.report).read_text(encoding="utf-8"))["moved"] < settings["doremi"]["settled"]:
            return number
    return settings["doremi"]["rounds"]


def reweighting_folders(wildcards):
    """Folders of the runs behind a method's mixture: DoReMi's rounds, or the one round that the name says."""
    method, _, number = wildcards.reweighted.partition("_round")
    model = config["datasets"][wildcards.dataset]["reweighting"]["model"]
    folder = f"results/{wildcards.dataset}/reweighting/{model}/{method}"
    if method == "doge":
        return [folder]
    return [f"{folder}/{number}"] if number else [f"{folder}/{k + 1}" for k in range(last_round(wildcards))]


def reweighted_mixture(wildcards):
    return f"{reweighting_folders(wildcards)[-1]}/mixture.json"


def reweighting_paths(wildcards):
    return [f"{folder}/path.parquet" for folder in reweighting_folders(wildcards)]


def doge_targets(pattern):
    """A function of the wildcards: a file of the dataset that DoGE's targets are in, where they are named."""

    def find(wildcards):
        targets = config["datasets"][wildcards.dataset]["reweighting"].get("targets")
        return pattern.format(dataset=targets["dataset"]) if targets else []

    return find


def optimum_source(wildcards):
    """Where an optimised mixture comes from: model, law, group and step. That of a swarm, or of the group under `optimum`."""
    block = DATASETS[wildcards.dataset]
    law = wildcards.optimised.removesuffix("_swarm")
    if from_swarm(wildcards.dataset, wildcards.optimised):
        return block["swarm"]["model"], law, "swarm", block["swarm"]["step"]
    return block["optimum"]["model"], law, block["optimum"]["group"], block["optimum"]["step"]


def optimum_coefficients(wildcards):
    """The fitted law of an optimised mixture, which is refused where the swarm is too small for it."""
    check_swarm(wildcards.dataset, wildcards.optimised, f"datasets/{wildcards.dataset}/swarm/runs")
    model, law, group, _ = optimum_source(wildcards)
    return f"results/{wildcards.dataset}/laws/{model}/{law}/{group}/coefficients.json"


def optimum_run_tokens(wildcards):
    """Tokens of the run in which an optimum keeps to a number of epochs: that of `optimum`, which no run of a swarm is.

    none: they follow from the losses that the law was fitted to.
    """
    if not from_swarm(wildcards.dataset, wildcards.optimised):
        return "none"
    block = DATASETS[wildcards.dataset]
    rows = block["training"][block["optimum"]["model"]]["batch_rows"]
    return block["optimum"]["step"] * rows * block["sequence_length"]


def optimum_tokens(wildcards):
    """The table of the tokens there are: RegMix simulates mixtures around their shares."""
    block = DATASETS[wildcards.dataset]
    if optimum_source(wildcards)[1] == "regmix":
        if "observations" not in block:
            return f"results/{wildcards.dataset}/tokens/train.parquet"
        return block["observations"].get("tokens", [])
    return token_counts(wildcards)


def token_counts(wildcards):
    """The table of the tokens there are of each domain, where the optimum keeps to a number of epochs."""
    block = config["datasets"][wildcards.dataset]
    if "max_epochs" not in block["optimum"]:
        return []
    return (
        block["observations"]["tokens"]
        if "observations" in block
        else f"results/{wildcards.dataset}/tokens/train.parquet"
    )
