# The config checked and completed: a typo stops before the first job, with a sentence that names its key.


def refuse(key, sentence):
    raise WorkflowError(f"config: {key}: {sentence}")


def check_config():
    """Stop before the first job on a config that the schema refuses, with a sentence that names the key."""
    schema = yaml.safe_load(Path(workflow.basedir, "workflow/schemas/config.schema.yaml").read_text())
    error = best_match(Draft202012Validator(schema).iter_errors(config))
    if error is not None:
        refuse(Path(*map(str, error.absolute_path)), error.message)


def known_mixtures(dataset):
    """Names that a dataset's groups may use."""
    block = config["datasets"][dataset]
    table = config["mixtures"]["published"].get(block.get("published"))
    columns = Path(workflow.basedir, table).read_text().splitlines()[0].split(",")[1:] if table else []
    published = [f"published_{column}" for column in columns]
    fitted = ["bimix", "transfer"]
    if "swarm" in block:
        fitted += [*SWARM_LAWS, *(f"{law}_swarm" for law in LAWS)]
    else:
        fitted += [law for law in SWARM_LAWS if law in config["laws"]["optimise"]]
    reweighted = REWEIGHTING if "reweighting" in block else []
    own = block.get("mixture_files", {})
    return ["baseline", "uniform", *MEASURES, *published, *own, *reweighted, *fitted]


def complete_dataset(dataset):
    """Write each model's recipe out in full and refuse names that nothing stands behind."""
    block = config["datasets"][dataset]
    if "observations" in block:
        complete_observed(dataset)
        return
    block["corpus"] = config["corpus"] | block["corpus"]
    block["entropy"] = config["entropy"] | block.get("entropy", {})
    for model, settings in block.get("training", {}).items():
        if model not in config["models"]:
            refuse(
                f"datasets/{dataset}/training/{model}", f"no such model; `models` has {', '.join(config['models'])}."
            )
        if settings["recipe"] not in config["training"]:
            refuse(
                f"datasets/{dataset}/training/{model}/recipe",
                f"no recipe {settings['recipe']!r}; `training` has {', '.join(config['training'])}.",
            )
        recipe = {**config["training"][settings["recipe"]], **settings}
        block["training"][model] = {key: value for key, value in recipe.items() if key != "recipe"}
        processes = config["models"][model]["launch"]["gpus"] * config["models"][model]["launch"]["nodes"]
        if recipe["batch_rows"] < processes:
            refuse(
                f"datasets/{dataset}/training/{model}/batch_rows",
                f"{recipe['batch_rows']} rows cannot be dealt out to {processes} GPUs.",
            )
    if block.get("published", None) not in [None, *config["mixtures"]["published"]]:
        refuse(f"datasets/{dataset}/published", f"no table {block['published']!r} in mixtures/published.")
    swarm = swarm_names(dataset)
    named = {f"groups/{group}": mixtures for group, mixtures in block["groups"].items()}
    named["compare/mixtures"] = block.get("compare", {}).get("mixtures", [])
    named["methods"] = block.get("methods", [])
    for key, mixtures in named.items():
        for mixture in mixtures:
            if mixture in REWEIGHTING and mixture not in known_mixtures(dataset):
                refuse(f"datasets/{dataset}/{key}", f"{mixture!r} needs a block `reweighting` in the dataset.")
            if mixture not in known_mixtures(dataset) and mixture not in swarm:
                known = known_mixtures(dataset) + ([f"{swarm[0]} to {swarm[-1]}"] if swarm else [])
                refuse(f"datasets/{dataset}/{key}", f"no mixture {mixture!r}; the dataset knows {', '.join(known)}.")
            check_swarm(dataset, mixture, f"datasets/{dataset}/{key}")
    # What the large model is trained on is a group like any other, and so are the swarm and the methods that have a price.
    block["groups"]["compare"] = block["compare"]["mixtures"]
    block["groups"]["methods"] = block.get("methods", [])
    if swarm:
        block["groups"]["swarm"] = swarm
    for group in [block["optimum"]["group"], *block["held_out"]]:
        if group not in block["groups"]:
            refuse(f"datasets/{dataset}", f"no group {group!r}; `groups` has {', '.join(block['groups'])}.")
    for model in block.get("seeds", {}):
        if model not in block["training"]:
            refuse(f"datasets/{dataset}/seeds/{model}", "no training settings for this model.")
    if "reweighting" in block:
        complete_reweighting(dataset)
    for key in ("optimum", "compare"):
        if block[key]["model"] not in block["training"]:
            refuse(f"datasets/{dataset}/{key}/model", f"no training settings for {block[key]['model']!r}.")
    if "downstream" in block:
        complete_downstream(dataset)


def complete_downstream(dataset):
    """Fill in what a dataset does not say about its questions and refuse what cannot be answered."""
    block = config["datasets"][dataset]
    key = f"datasets/{dataset}/downstream"
    downstream = block["downstream"] = config["downstream"] | block["downstream"]
    if downstream["model"] not in block["training"]:
        refuse(f"{key}/model", f"no training settings for {downstream['model']!r}.")
    recipe = block["training"][downstream["model"]]
    for step in downstream["steps"]:
        if step > recipe["steps"] or (step % recipe["evaluate_every"] and step != recipe["steps"]):
            refuse(
                f"{key}/steps",
                f"{step} is no evaluation of {downstream['model']}, which has one every {recipe['evaluate_every']} steps"
                f" up to {recipe['steps']}.",
            )
    if downstream["new_tokens"] >= block["sequence_length"]:
        refuse(f"{key}/new_tokens", f"no room is left for a question in {block['sequence_length']} tokens.")
    if downstream["cache_tokens"] < block["sequence_length"]:
        refuse(f"{key}/cache_tokens", f"fewer than the {block['sequence_length']} of one prompt and its answer.")


def swarm_names(dataset):
    """Mixtures of a dataset's swarm, checked against the rest of its block; none without a swarm."""
    block = config["datasets"][dataset]
    if "swarm" not in block:
        return []
    swarm = block["swarm"]
    if swarm["model"] not in block["training"]:
        refuse(f"datasets/{dataset}/swarm/model", f"no training settings for {swarm['model']!r}.")
    recipe = block["training"][swarm["model"]] | swarm.get("training", {})
    if swarm["step"] > recipe["steps"] or (
        swarm["step"] % recipe["evaluate_every"] and swarm["step"] != recipe["steps"]
    ):
        refuse(
            f"datasets/{dataset}/swarm/step",
            f"the losses of the swarm are measured every {recipe['evaluate_every']} steps and after the last,"
            f" {recipe['steps']}, not at {swarm['step']}.",
        )
    return [f"swarm_{number:04d}" for number in range(1, swarm["runs"] + 1)]


def check_swarm(dataset, mixture, key):
    """Refuse a mixture of a law that needs more runs than the swarm has."""
    if not from_swarm(dataset, mixture):
        return
    block, law = config["datasets"][dataset], mixture.removesuffix("_swarm")
    domains, runs = len(block["domains"]), block["swarm"]["runs"]
    if runs < LEAST_RUNS[law](domains):
        refuse(
            key,
            f"{mixture!r} needs a swarm of {LEAST_RUNS[law](domains)} runs at least for {domains} domains;"
            f" `swarm` has {runs} runs.",
        )


def complete_reweighting(dataset):
    """Write the settings of DoReMi and DoGE out in full and refuse names that nothing stands behind."""
    key, block = f"datasets/{dataset}/reweighting", config["datasets"][dataset]
    settings = block["reweighting"]
    if settings["model"] not in block["training"]:
        refuse(f"{key}/model", f"no training settings for {settings['model']!r}.")
    for method in REWEIGHTING:
        changes = [config[method].get("training", {}), settings.get("training", {})]
        changes.append(settings.get(method, {}).get("training", {}))
        recipe = next((change["recipe"] for change in reversed(changes) if "recipe" in change), None)
        if recipe not in [None, *config["training"]]:
            refuse(
                f"{key}/{method}/training/recipe", f"no recipe {recipe!r}; there are {', '.join(config['training'])}."
            )
        full = dict(config["training"][recipe] if recipe else block["training"][settings["model"]])
        for change in changes:
            full |= {name: value for name, value in change.items() if name != "recipe"}
        settings[method] = config[method] | settings.get(method, {}) | {"training": full}
    references = [name for name in known_mixtures(dataset) if name not in REWEIGHTING]
    if settings["reference"] not in references:
        refuse(f"{key}/reference", f"no mixture {settings['reference']!r}; there are {', '.join(references)}.")
    targets = settings.get("targets")
    if targets:
        other = config["datasets"].get(targets["dataset"], {})
        if "corpus" not in other:
            refuse(f"{key}/targets/dataset", f"no dataset {targets['dataset']!r} with a corpus.")
        for domain in targets["domains"]:
            if domain not in other["domains"]:
                refuse(f"{key}/targets/domains", f"no domain {domain!r} in {targets['dataset']}.")


def complete_observed(dataset):
    """A dataset of losses measured elsewhere: its one model is called observed; a group `all` takes every mixture."""
    block = config["datasets"][dataset]
    block["groups"] = {group: [] if names == "all" else names for group, names in block["groups"].items()}
    block["groups"]["compare"] = block["compare"]["mixtures"]
    block["optimum"]["model"] = block["compare"]["model"] = "observed"
    if "max_epochs" in block["optimum"] and "tokens" not in block["observations"]:
        refuse(
            f"datasets/{dataset}/optimum/max_epochs",
            "name a table of domain and tokens as `tokens` under `observations`: it is not known how many there are.",
        )
    for group in [block["optimum"]["group"], *block["held_out"]]:
        if group not in block["groups"]:
            refuse(f"datasets/{dataset}", f"no group {group!r}; `groups` has {', '.join(block['groups'])}.")
