# The runs of a group, what each of them is trained with, and the questions that it is asked.


def runs_of(dataset, model, group):
    """Runs of a group as (folder name, mixture, seed): the recipe's seed first, then `seeds`, in folders mixture@seed."""
    block = config["datasets"][dataset]
    own = block["training"][model]["seed"]
    runs = []
    for mixture in block["groups"][group]:
        runs.append((mixture, mixture, own))
        runs += [(f"{mixture}@{seed}", mixture, seed) for seed in block.get("seeds", {}).get(model, []) if seed != own]
    return runs


def run_losses(wildcards):
    """Loss tables of a group's runs."""
    folder = f"results/{wildcards.dataset}/runs/{wildcards.model}"
    return [f"{folder}/{run[0]}/losses.parquet" for run in runs_of(wildcards.dataset, wildcards.model, wildcards.group)]


def run_column(column):
    """A function of the wildcards that gives one entry of `runs_of` for each run of a group."""
    return lambda wildcards: [run[column] for run in runs_of(wildcards.dataset, wildcards.model, wildcards.group)]


def recipe_json(wildcards):
    """Training settings of one run; `mixture@seed` has another seed than its model's others."""
    block = config["datasets"][wildcards.dataset]
    mixture, *seed = wildcards.run.split("@")
    recipe = dict(block["training"][wildcards.model])
    if is_swarm(wildcards) and mixture in block["groups"]["swarm"]:
        recipe |= block["swarm"].get("training", {})
    if seed:
        recipe["seed"] = int(seed[0])
    return json.dumps(recipe, sort_keys=True)


def gpus_of(wildcards):
    """GPUs of a training on all of its nodes together, which is how schedulers count them."""
    launch = config["models"][wildcards.model]["launch"]
    return launch["gpus"] * launch["nodes"]


def verifies_shards(wildcards):
    """Whether a training holds its shards against their digests first; a resource, as it changes no result."""
    return config["models"][wildcards.model]["launch"].get("verify_shards", "yes")


def kept_steps(wildcards):
    """Steps of a run whose weights stay, since they are to answer questions; a resource, as it changes no result."""
    downstream = config["datasets"][wildcards.dataset].get("downstream", {})
    if wildcards.model != downstream.get("model"):
        return "none"
    asked = [run[0] for run in runs_of(wildcards.dataset, wildcards.model, "compare")]
    return ",".join(map(str, downstream["steps"])) if wildcards.run in asked else "none"


def task_files(dataset):
    """Tasks of a dataset with the places of their items and shots; generated ones have none for shots."""
    folder, tasks = f"results/{dataset}/downstream/tasks", {}
    for name, task in config["datasets"][dataset]["downstream"]["tasks"].items():
        places = {"items": f"{folder}/{name}.jsonl", "shots": None} if "generate" in task else task
        tasks[name] = {key: places[key] for key in ("items", "shots")} | {"kind": task["kind"]}
    return tasks


def question_files(wildcards):
    """Inputs that stand for task files: those far away are none."""
    places = [task[key] for task in task_files(wildcards.dataset).values() for key in ("items", "shots")]
    return [place for place in places if isinstance(place, str) and not is_remote(place)]


def answers_of(column):
    """A function of the wildcards: an entry of `runs_of` (0: the table of answers) for each run that is asked."""

    def find(wildcards):
        model = config["datasets"][wildcards.dataset]["downstream"]["model"]
        runs = runs_of(wildcards.dataset, model, "compare")
        if column:
            return [run[column] for run in runs]
        return [f"results/{wildcards.dataset}/downstream/{model}/{run[0]}.parquet" for run in runs]

    return find


def fitted_sizes(dataset):
    """Mixtures and evaluations of the group that laws are fitted to, known before the first job.

    Of observations they are counted in the table; one that cannot be read counts as empty: its own job says what is wrong.
    """
    block = config["datasets"][dataset]
    names = block["groups"][block["optimum"]["group"]]
    if "observations" not in block:
        recipe = block["training"][block["optimum"]["model"]]
        if block["optimum"]["group"] == "swarm":
            recipe = recipe | block["swarm"].get("training", {})
        return len(names), -(-recipe["steps"] // recipe["evaluate_every"])
    import polars as pl  # here only: it costs each call of Snakemake a quarter of a second

    path = block["observations"]["losses"]
    try:
        text = {"mixture": pl.String}
        table = (
            pl.read_csv(path, infer_schema_length=None, schema_overrides=text)
            if path.endswith(".csv")
            else pl.read_parquet(path)
        )
        wanted = table.select("step", pl.col("mixture").cast(pl.String))
        wanted = wanted.filter(pl.col("mixture").is_in(names)) if names else wanted
        return wanted["mixture"].n_unique(), wanted["step"].n_unique()
    except (pl.exceptions.PolarsError, OSError):
        return 0, 0


SIZES = {}


def has_runs(least):
    """A function of the wildcards: whether laws are fitted to so many mixtures at least."""
    return lambda wildcards: sizes_of(wildcards.dataset)[0] >= least


def has_path(wildcards):
    """Whether laws are fitted to a curve over steps: from one step there is no path of the optimum."""
    return sizes_of(wildcards.dataset)[1] > 1


def sizes_of(dataset):
    if dataset not in SIZES:
        SIZES[dataset] = fitted_sizes(dataset)
    return SIZES[dataset]
