# Design: which runs to make next, and whether to go on. Nothing of this is made unless it is asked
# for.
#   losses/{model}/{group}.parquet, mixtures/groups/{group}.parquet, cross_entropy.csv, plan.csv
#       -> design/mixtures.csv, design/runs.csv, design/advice.txt
# What is proposed is trained on once you name a copy of design/mixtures.csv under `mixture_files`.


rule propose_runs:
    """The mixtures and sizes of the next runs, and whether to go on."""
    input:
        losses=fitted("results/{{dataset}}/losses/{model}/{group}.parquet"),
        mixtures=collect("results/{{dataset}}/mixtures/groups/{group}.parquet", group=setting("optimum/group")),
        prior=planned(runs.prior_table),
        tokens=planned(pools.epoch_tokens),
        models=planned(costs.design_models),
        centre=planned(optimum.centre),
        reference=planned(optimum.objective_reference),
        code=script("propose_runs", "search/proposals", "search/criterion", "search/regret"),
    output:
        mixtures="results/{dataset}/design/mixtures.csv",
        runs="results/{dataset}/design/runs.csv",
        advice="results/{dataset}/design/advice.txt",
    log:
        "results/{dataset}/logs/propose_runs.log",
    conda:
        "../../envs/analysis.yaml"
    params:
        **SOUGHT,
        asked=planned(costs.design_flags),
        seed=config["laws"]["seed"],
        step=setting("optimum/step"),
    shell:
        seeking(r"""
        propose_runs.py \
            --losses {input.losses:q} \
            --mixtures {input.mixtures:q} \
            --prior {input.prior:q} \
            --models {input.models:q} \
            {params.asked:q} \
            --seed {params.seed} \
            --step {params.step} \
            --out {output.mixtures:q} \
            --runs {output.runs:q} \
            >{output.advice:q}
        """)
