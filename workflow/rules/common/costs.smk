# What mixtures are found with, for the plan of costs before and the price list after.


def searched_with(dataset, mixture, found_with=()):
    """Trainings that a mixture is found with, each as (what, model, recipe, name), and those that their own mixtures are.

    `found_with`: the mixtures on the way here; one that is found with itself is left to Snakemake, which says so.
    """
    block = config["datasets"][dataset]
    if mixture in found_with:
        return []
    way = (*found_with, mixture)
    if mixture in REWEIGHTING:
        settings = block["reweighting"]
        model, recipe = settings["model"], block["training"][settings["model"]]
        proxy = (mixture, model, settings[mixture]["training"], mixture)
        if mixture != "doremi":
            return [proxy]
        reference = settings["reference"]
        return [proxy, ("pretraining", model, recipe, reference), *searched_with(dataset, reference, way)]
    if mixture.removesuffix("_swarm") not in LAWS:
        return []
    model, _, group, _ = optimum_source(SimpleNamespace(dataset=dataset, optimised=mixture))
    recipe = block["training"][model]
    if group == "swarm":
        recipe = recipe | block["swarm"].get("training", {})
        return [("swarm", model, recipe, name) for name in block["groups"]["swarm"]]
    runs = [("pretraining", model, recipe, run[0]) for run in runs_of(dataset, model, group)]
    return runs + [run for name in block["groups"][group] for run in searched_with(dataset, name, way)]


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
    targets = block.get("reweighting", {}).get("targets", {}).get("domains", [])
    mixed = block.get("reweighting", {}).get("doge", {}).get("target") == "mix"
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
                    "targets": len(targets) if what == "doge" else 0,
                    "mixed": what == "doge" and mixed,
                }
                row = rows.setdefault((needed_for, what, model), row)
                row["runs"] += 1
                if what == "pretraining" and name in asked and model == block["downstream"]["model"]:
                    row["kept"] += earlier
                row["done"] += Path(ENDED[what].format(dataset=dataset, model=model, name=name)).exists()
    return json.dumps(list(rows.values()), sort_keys=True)


def reports_of(dataset, what, model, name):
    """Files that say what a training of `searched_with` cost; of DoReMi those of all rounds and of their references."""
    folder = f"results/{dataset}"
    if what == "swarm":
        return [f"{folder}/swarm/{model}/runs.parquet"]
    if what == "pretraining":
        return [f"{folder}/runs/{model}/{name}/run.json"]
    rounds = reweighting_folders(SimpleNamespace(dataset=dataset, reweighted=name))
    references = [f"{folder}/runs/{model}/doremi_round{number}/run.json" for number in range(1, len(rounds))]
    return [f"{own}/run.json" for own in rounds] + references


def search_reports(wildcards):
    """{mixture: files that say what the runs cost that it was found with} for the price list; no run is paid for twice."""
    dataset, files = wildcards.dataset, {}
    for mixture in DATASETS[dataset]["groups"]["methods"]:
        runs = [(what, model, name) for what, model, _, name in searched_with(dataset, mixture)]
        files[mixture] = list(dict.fromkeys(file for run in runs for file in reports_of(dataset, *run)))
    return files
