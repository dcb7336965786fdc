# Optimum: the mixture with the least predicted loss, and how sure it is.
#   coefficients.json -> mixtures/{law}.json, which training.smk then trains on, optima/{law}.json
#   coefficients.json -> intervals.csv -> figures/optimum_*.svg
# optimize_mixture does not list its script, since a large run follows from it: `snakemake -R
# optimize_mixture` after a change.


rule optimize_mixture:
    """The mixture with the least predicted loss, trained on like any other."""
    input:
        coefficients=planned(lambda dataset, optimised: dataset.coefficients(dataset.fit(optimised))),
        tokens=planned(inputs.token_table),
        mixtures=planned(lambda dataset, optimised: dataset.mixture_table(dataset.fit(optimised).group)),
        centre=when("centre", "results/{dataset}/mixtures/{entry}.json"),
        reference=when("optimum/objective/reference", "results/{dataset}/mixtures/{entry}.json"),
    output:
        mixture="results/{dataset}/mixtures/{optimised}.json",
        report="results/{dataset}/optima/{optimised}.json",
    log:
        "results/{dataset}/logs/optimize_mixture/{optimised}.log",
    benchmark:
        "results/{dataset}/benchmarks/optimize_mixture/{optimised}.tsv"
    wildcard_constraints:
        optimised=made_by("optimize_mixture"),
    conda:
        "../../envs/analysis.yaml"
    params:
        **SOUGHT,
        step=planned(lambda dataset, optimised: dataset.fit(optimised).step),
        run_tokens=planned(inputs.epoch_run_tokens),
    shell:
        RUN + r"optimize_mixture.py " + (SOUGHT_FLAGS) + r"""--strengths {params.strengths:q} \
            --centre {input.centre:q} \
            --coefficients {input.coefficients:q} \
            --step {params.step:q} \
            --run-tokens {params.run_tokens} \
            --mixtures {input.mixtures:q} \
            --out {output.mixture:q} \
            --report {output.report:q} \
            >{log:q} 2>&1
        """


rule estimate_intervals:
    """Intervals of losses and gain from runs left out, of coefficients and shares from refits."""
    input:
        coefficients="results/{dataset}/laws/{model}/{law}/{group}/coefficients.json",
        losses="results/{dataset}/losses/{model}/{group}.parquet",
        mixtures="results/{dataset}/mixtures/groups/{group}.parquet",
        held_out=collect("results/{{dataset}}/mixtures/groups/{name}.parquet", name=setting("held_out")),
        baseline=collect("results/{{dataset}}/mixtures/{mixture}.json", mixture=setting("compare/mixtures/0")),
        tokens=planned(inputs.token_table),
        centre=when("centre", "results/{dataset}/mixtures/{entry}.json"),
        reference=when("optimum/objective/reference", "results/{dataset}/mixtures/{entry}.json"),
        code=script("estimate_intervals", "optimum/intervals", "optimum/optimum"),
    output:
        intervals="results/{dataset}/laws/{model}/{law}/{group}/intervals.csv",
    log:
        "results/{dataset}/logs/estimate_intervals/{model}/{law}/{group}.log",
    benchmark:
        "results/{dataset}/benchmarks/estimate_intervals/{model}/{law}/{group}.tsv"
    conda:
        "../../envs/analysis.yaml"
    params:
        **SOUGHT,
        step=setting("optimum/step"),
        run_tokens=planned(lambda dataset, law: inputs.epoch_run_tokens(dataset, law)),
        baseline=setting("compare/mixtures/0"),
        resamples=config["laws"]["intervals"]["resamples"],
        level=config["laws"]["intervals"]["level"],
        seed=config["laws"]["seed"],
    shell:
        RUN + r"estimate_intervals.py " + (SOUGHT_FLAGS) + r"""--strengths {params.strengths:q} \
            --centre {input.centre:q} \
            --coefficients {input.coefficients:q} \
            --losses {input.losses:q} \
            --mixtures {input.mixtures:q} \
            --predict {input.held_out:q} \
            --step {params.step:q} \
            --baseline {params.baseline:q} \
            --baseline-mixture {input.baseline:q} \
            --resamples {params.resamples:q} \
            --level {params.level:q} \
            --seed {params.seed:q} \
            --run-tokens {params.run_tokens} \
            --out {output.intervals:q} \
            2>{log:q}
        """


rule plot_optimum:
    """The optimum with its intervals, next to the mixture that it is measured against."""
    input:
        coefficients="results/{dataset}/laws/{model}/{law}/{group}/coefficients.json",
        intervals="results/{dataset}/laws/{model}/{law}/{group}/intervals.csv",
        baseline=collect("results/{{dataset}}/mixtures/{mixture}.json", mixture=setting("compare/mixtures/0")),
        losses=collect("results/{{dataset}}/losses/{model}/compare.parquet", model=setting("compare/model")),
        mixtures="results/{dataset}/mixtures/groups/compare.parquet",
        code=script("plot_optimum", "results/figures", "judge/measured"),
    output:
        figure=figure(
            "optimum_{model}_{law}_{group}", "3 Law", "The optimum and its intervals: {model}, {law}, {group}"
        ),
    log:
        "results/{dataset}/logs/plot_optimum/{model}_{law}_{group}.log",
    conda:
        "../../envs/analysis.yaml"
    params:
        baseline=setting("compare/mixtures/0"),
        compared_model=setting("compare/model"),
        weights=bound("weights"),
    shell:
        RUN + r"""plot_optimum.py \
            --coefficients {input.coefficients:q} \
            --intervals {input.intervals:q} \
            --baseline {params.baseline:q} \
            --baseline-mixture {input.baseline:q} \
            --compared-losses {input.losses:q} \
            --compared-mixtures {input.mixtures:q} \
            --compared-model {params.compared_model:q} \
            --model {wildcards.model:q} \
            --weights {params.weights:q} \
            --out {output.figure:q} \
            2>{log:q}
        """
