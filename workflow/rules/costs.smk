# Costs of the trainings before any is started, made where they are requested.
#   recipes, models, hardware of the config -> plan.csv, search/prices.csv


rule plan_runs:
    """What a dataset's trainings will cost, before any is started: runs, FLOPs, hours at a
    stated utilisation, disk.
    """
    input:
        tokenizer=planned(lambda dataset: [] if budget.known_ids(dataset) else f"{dataset.folder}/tokenizer.json"),
        code=script("plan_runs", "judge/budget"),
    output:
        plan="results/{dataset}/plan.csv",
    log:
        "results/{dataset}/logs/plan_runs.log",
    wildcard_constraints:
        dataset=datasets_with("corpus"),
    conda:
        "../../envs/torch.yaml"
    params:
        runs=as_json(planned(budget.planned_runs)),
        models=as_json("models"),
        hardware=as_json("hardware"),
        vocabulary=planned(budget.known_ids),
        sequence_length=setting("sequence_length"),
        domains=planned(lambda dataset: len(dataset.block["domains"]) + len(dataset.only_measured)),
    shell:
        RUN + r"""plan_runs.py \
            --runs {params.runs:q} \
            --models {params.models:q} \
            --hardware {params.hardware:q} \
            --vocabulary {params.vocabulary} \
            --tokenizer {input.tokenizer:q} \
            --sequence-length {params.sequence_length} \
            --domains {params.domains} \
            --out {output.plan:q} \
            2>{log:q}
        """


use rule plan_runs as price_search with:
    # What a run of each model costs, for a search with a budget in FLOPs. The plan is no input of its
    # rounds, as it changes when runs end; nor an `ancient` one: Snakemake looks at no setting of jobs
    # behind one that must run, so that rounds would keep the settings they had.
    input:
        tokenizer=branch(
            setting("tokenizer/train", default={}),
            then=[],
            otherwise="results/{dataset}/tokenizer.json",
        ),
    output:
        plan="results/{dataset}/search/prices.csv",
    log:
        "results/{dataset}/logs/price_search.log",
    wildcard_constraints:
        dataset=datasets_with("search"),
    params:
        runs=as_json(planned(budget.priced_runs)),
        models=uncompared(as_json("models")),  # launching changes no FLOPs
        hardware=uncompared(as_json("hardware")),
        sizes=as_json(planned(budget.priced_sizes)),
