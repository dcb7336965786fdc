# What mixtures are found with, for the plan of costs before and the price list after.


def searched_with(dataset, mixture):
    """Trainings that a mixture is found with, each as (what, model, recipe, name)."""
    block = config["datasets"][dataset]
    if mixture in REWEIGHTING:
        settings = block["reweighting"]
        model, recipe = settings["model"], block["training"][settings["model"]]
        proxy = (mixture, model, recipe | settings.get("training", {}), mixture)
        return [proxy, ("pretraining", model, recipe, settings["reference"])] if mixture == "doremi" else [proxy]
    if mixture.removesuffix("_swarm") not in LAWS:
        return []
    model, _, group, _ = optimum_source(SimpleNamespace(dataset=dataset, optimised=mixture))
    recipe = block["training"][model]
    if group == "swarm":
        recipe = recipe | block["swarm"].get("training", {})
        return [("swarm", model, recipe, name) for name in block["groups"]["swarm"]]
    return [("pretraining", model, recipe, run[0]) for run in runs_of(dataset, model, group)]


def trained_for(dataset, model, group):
    """Trainings that the losses of a group take, those that its mixtures are found with included."""
    block = config["datasets"][dataset]
    for mixture in block["groups"][group]:
        yield from searched_with(dataset, mixture)
    if group == "swarm":
        yield from searched_with(dataset, "transfer_swarm")
        return
    for run in runs_of(dataset, model, group):
        yield "pretraining", model, block["training"][model], run[0]


# Where the losses of a training stand that has ended.
ENDED = {
    "pretraining": "results/{dataset}/runs/{model}/{name}/losses.parquet",
    "doremi": "results/{dataset}/reweighting/{model}/doremi/1/losses.parquet",
    "doge": "results/{dataset}/reweighting/{model}/doge/losses.parquet",
    "swarm": "results/{dataset}/swarm/{model}/state/{name}/losses.parquet",
}


def planned_runs(wildcards):
    """Trainings that the summary needs, and those that the price list needs beside them, counted by kind and model; JSON."""
    dataset, block = wildcards.dataset, config["datasets"][wildcards.dataset]
    needs = {
        "summary": [(block["optimum"]["model"], group) for group in [block["optimum"]["group"], *block["held_out"]]]
    }
    needs["summary"].append((block["compare"]["model"], "compare"))
    asked, earlier = set(), 0
    if "downstream" in block:
        needs["summary"].append((block["downstream"]["model"], "compare"))
        asked = {run[0] for run in runs_of(dataset, block["downstream"]["model"], "compare")}
        last = block["training"][block["downstream"]["model"]]["steps"]
        earlier = sum(step < last for step in block["downstream"]["steps"])
    needs["methods"] = [(block["compare"]["model"], "methods")]
    seen, rows = set(), {}
    for needed_for, groups in needs.items():
        for what, model, recipe, name in (run for group in groups for run in trained_for(dataset, *group)):
            if (what, model, name) not in seen:
                seen.add((what, model, name))
                row = {
                    "needed_for": needed_for,
                    "what": what,
                    "model": model,
                    "recipe": recipe,
                    "runs": 0,
                    "done": 0,
                    "kept": 0,
                }
                row = rows.setdefault((needed_for, what, model), row)
                row["runs"] += 1
                if what == "pretraining" and name in asked and model == block["downstream"]["model"]:
                    row["kept"] += earlier
                row["done"] += Path(ENDED[what].format(dataset=dataset, model=model, name=name)).exists()
    return json.dumps(list(rows.values()), sort_keys=True)


def search_reports(wildcards):
    """{mixture: files that say what the runs cost that it was found with} for the price list."""
    dataset, files = wildcards.dataset, {}
    for mixture in DATASETS[dataset]["groups"]["methods"]:
        own = SimpleNamespace(dataset=dataset, reweighted=mixture, optimised=mixture)
        runs = searched_with(dataset, mixture)
        if mixture in REWEIGHTING:
            files[mixture] = [f"{folder}/run.json" for folder in reweighting_folders(own)]
            references = [run[3] for run in runs[1:]]
            references += [f"doremi_round{number + 1}" for number in range(len(files[mixture]) - 1)]
            files[mixture] += [
                f"results/{dataset}/runs/{runs[0][1]}/{name}/run.json" for name in references if runs[1:]
            ]
        elif runs and runs[0][0] == "swarm":
            files[mixture] = [f"results/{dataset}/swarm/{runs[0][1]}/runs.parquet"]
        else:
            files[mixture] = [f"results/{dataset}/runs/{model}/{name}/run.json" for _, model, _, name in runs]
    return files
