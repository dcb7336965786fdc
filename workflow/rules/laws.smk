# Laws: fitted to one group of mixtures, and what they predict for this and for the groups under
# `held_out`.
#   losses/{model}/{group}.parquet, mixtures/groups/{group}.parquet, cross_entropy.csv
#       -> laws/{model}/{law}/{group}/coefficients.json
#   coefficients.json -> predictions.parquet, figures/steps_*.svg, figures/proportions_*.svg
# fit_law does not list its script, since a large run follows from it: `snakemake -R fit_law` after
# a change.


rule fit_law:
    """Fit a mixing law to the losses of a group of mixtures."""
    input:
        losses="results/{dataset}/losses/{model}/{group}.parquet",
        mixtures="results/{dataset}/mixtures/groups/{group}.parquet",
        prior=planned(inputs.prior),
        asked=planned(inputs.asked_size),
        own=entry("laws/own/{law}", default=()),
    output:
        coefficients="results/{dataset}/laws/{model}/{law}/{group}/coefficients.json",
    log:
        "results/{dataset}/logs/fit_law/{model}/{law}/{group}.log",
    benchmark:
        "results/{dataset}/benchmarks/fit_law/{model}/{law}/{group}.tsv"
    conda:
        "../../envs/analysis.yaml"
    params:
        domain_groups=as_json("datasets/{dataset}/domain_groups", {}),
        brought=brought(as_json("datasets/{dataset}/domain_groups", {})),
    shell:
        RUN + r"""fit_law.py \
            --law {wildcards.law:q} \
            --losses {input.losses:q} \
            --mixtures {input.mixtures:q} \
            --prior {input.prior:q} \
            --domain-groups {params.domain_groups:q} \
            --asked {input.asked:q} \
            --out {output.coefficients:q} \
            >{log:q} 2>&1
        """


rule predict_losses:
    """Predict every mixture of the dataset, fitted or held out, at the steps of the fit."""
    input:
        coefficients="results/{dataset}/laws/{model}/{law}/{group}/coefficients.json",
        mixtures=collect("results/{{dataset}}/mixtures/groups/{name}.parquet", name=setting("held_out")),
        fitted="results/{dataset}/mixtures/groups/{group}.parquet",
        code=script("predict_losses"),
    output:
        predictions="results/{dataset}/laws/{model}/{law}/{group}/predictions.parquet",
    log:
        "results/{dataset}/logs/predict_losses/{model}/{law}/{group}.log",
    conda:
        "../../envs/analysis.yaml"
    shell:
        RUN + r"""predict_losses.py \
            --coefficients {input.coefficients:q} \
            --mixtures {input.fitted:q} {input.mixtures:q} \
            --out {output.predictions:q} \
            2>{log:q}
        """


rule plot_fit:
    """Loss against training steps and against a domain's own proportion (paper Figs. 1 and 2)."""
    input:
        coefficients="results/{dataset}/laws/{model}/{law}/{group}/coefficients.json",
        losses="results/{dataset}/losses/{model}/{group}.parquet",
        mixtures="results/{dataset}/mixtures/groups/{group}.parquet",
        held_out_losses=collect("results/{{dataset}}/losses/{{model}}/{name}.parquet", name=setting("held_out")),
        held_out_mixtures=collect("results/{{dataset}}/mixtures/groups/{name}.parquet", name=setting("held_out")),
        code=script("plot_fit", "results/figures"),
    output:
        steps=figure("steps_{model}_{law}_{group}", "3 Law", "Loss against steps: {model}, {law}, {group}"),
        proportions=figure(
            "proportions_{model}_{law}_{group}", "3 Law", "Loss against proportion: {model}, {law}, {group}"
        ),
    log:
        "results/{dataset}/logs/plot_fit/{model}_{law}_{group}.log",
    conda:
        "../../envs/analysis.yaml"
    shell:
        RUN + r"""plot_fit.py \
            --coefficients {input.coefficients:q} \
            --losses {input.losses:q} {input.held_out_losses:q} \
            --mixtures {input.mixtures:q} {input.held_out_mixtures:q} \
            --steps {output.steps:q} \
            --proportions {output.proportions:q} \
            2>{log:q}
        """
