# Costs: of the trainings before any is started, and of each method next to what its mixture is
# worth.
#   recipes, models, hardware of the config -> plan.csv, search/prices.csv
#   losses/{model}/methods.parquet, reports of the searches
#       -> tables/verdict.csv, figures/verdict.svg
# Nothing of this is made unless it is requested.


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


rule judge_methods:
    """The methods over seeds: regret, optimism, ties, significance; what each search cost."""
    input:
        losses=collect("results/{{dataset}}/losses/{model}/methods.parquet", model=setting("compare/model")),
        mixtures="results/{dataset}/mixtures/groups/methods.parquet",
        large=planned(inputs.large_report),
        searches=planned(budget.report_files),
        costs=setting("observations/costs", default=[]),
        laws=planned(lambda dataset: sorted({law["coefficients"] for law in inputs.laws_of_methods(dataset).values()})),
        tokens=planned(inputs.token_table),
        code=script("judge_methods", "judge/worth", *JUDGE),
    output:
        table=table("verdict", "6 Methods", "What each method's proposal is worth over seeds (csv)"),
    log:
        "results/{dataset}/logs/judge_methods.log",
    wildcard_constraints:
        dataset=datasets_with("methods"),
    conda:
        "../../envs/analysis.yaml"
    params:
        reference=setting("methods/0"),
        laws=as_json(planned(inputs.laws_of_methods)),
        searches=as_json(planned(budget.search_reports)),
        run_tokens=planned(inputs.compared_tokens),
        weights=bound("weights"),
        objective=bound("objective"),
    shell:
        RUN + r"""judge_methods.py \
            --losses {input.losses:q} \
            --large {input.large:q} \
            --searches {params.searches:q} \
            --costs {input.costs:q} \
            --reference {params.reference:q} \
            --mixtures {input.mixtures:q} \
            --laws {params.laws:q} \
            --tokens {input.tokens:q} \
            --run-tokens {params.run_tokens} \
            --weights {params.weights:q} \
            --objective {params.objective:q} \
            --out {output.table:q} \
            2>{log:q}
        """


rule plot_verdict:
    """Gain of each method's proposal against what its search cost, with intervals over seeds."""
    input:
        verdict="results/{dataset}/tables/verdict.csv",
        code=script("plot_verdict", "results/figures"),
    output:
        figure=figure("verdict", "6 Methods", "Gain against cost of each method"),
    log:
        "results/{dataset}/logs/plot_verdict.log",
    conda:
        "../../envs/analysis.yaml"
    shell:
        RUN + r"plot_verdict.py --verdict {input.verdict:q} --out {output.figure:q} 2>{log:q}"
