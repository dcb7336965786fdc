# Sizes: laws fitted to models of several sizes, where `optimum` names `models` and what they are
# `for`.
#   losses/{model}/{group}.parquet, sizes/{model}.json -> losses/{model}+{model}/{group}.parquet
#   that and the losses of a larger model -> sizes.csv -> figures/sizes_*.svg
# The joined names then stand where else the name of a model does. As of fit_law, the scripts
# before a law are no inputs.


rule measure_size:
    """The parameters of a model with the dataset's tokenizer, and the tokens of its whole run."""
    input:
        tokenizer="results/{dataset}/tokenizer.json",
    output:
        json="results/{dataset}/sizes/{model}.json",
    log:
        "results/{dataset}/logs/measure_size/{model}.log",
    wildcard_constraints:
        model=one_of(config["models"]),
    conda:
        "../../envs/analysis.yaml"
    params:
        shape=as_json("models/{model}/shape", default={}),
        parameters=entry("models/{model}/parameters", default=0),
        tokens=planned(lambda dataset, model: dataset.run_tokens(model)),
    shell:
        RUN + r"""measure_size.py \
            --tokenizer {input.tokenizer:q} \
            --shape {params.shape:q} \
            --parameters {params.parameters} \
            --tokens {params.tokens} \
            --out {output.json:q} \
            2>{log:q}
        """


rule join_sizes:
    """The losses of a group by models of several sizes as one table, with a column for the size."""
    input:
        losses=planned(
            lambda dataset, model, group: [
                f"{dataset.folder}/losses/{one}/{group}.parquet" for one in model.split(JOINS)
            ]
        ),
        sizes=planned(lambda dataset, model: [f"{dataset.folder}/sizes/{one}.json" for one in model.split(JOINS)]),
    output:
        table="results/{dataset}/losses/{model}/{group}.parquet",
    log:
        "results/{dataset}/logs/join_sizes/{model}/{group}.log",
    wildcard_constraints:
        dataset=datasets_with("optimum/models"),
        group=names_under("groups"),
        model=one_of(joined_models(config)),
    conda:
        "../../envs/analysis.yaml"
    shell:
        RUN + r"join_sizes.py --losses {input.losses:q} --sizes {input.sizes:q} --out {output.table:q} 2>{log:q}"


rule score_sizes:
    """How well a law over sizes predicts the compared runs, by the number of them fitted."""
    input:
        losses="results/{dataset}/losses/{model}/{group}.parquet",
        mixtures="results/{dataset}/mixtures/groups/{group}.parquet",
        large_losses=collect("results/{{dataset}}/losses/{large}/compare.parquet", large=setting("optimum/for")),
        large_mixtures="results/{dataset}/mixtures/groups/compare.parquet",
        asked=planned(inputs.asked_size),
        prior=planned(inputs.prior),
        code=script("score_sizes", "judge/law_scores"),
    output:
        sizes="results/{dataset}/laws/{model}/{law}/{group}/sizes.csv",
    log:
        "results/{dataset}/logs/score_sizes/{model}/{law}/{group}.log",
    wildcard_constraints:
        dataset=datasets_with("optimum/models"),
    conda:
        "../../envs/analysis.yaml"
    params:
        domain_groups=as_json("datasets/{dataset}/domain_groups", {}),
        seed=config["laws"]["seed"],
    shell:
        RUN + r"""score_sizes.py \
            --law {wildcards.law:q} \
            --losses {input.losses:q} \
            --mixtures {input.mixtures:q} \
            --large-losses {input.large_losses:q} \
            --large-mixtures {input.large_mixtures:q} \
            --asked {input.asked:q} \
            --prior {input.prior:q} \
            --domain-groups {params.domain_groups:q} \
            --draws 5 \
            --seed {params.seed} \
            --out {output.sizes:q} \
            2>{log:q}
        """


rule plot_sizes:
    """Error and rank correlation on large runs against how many of them were fitted."""
    input:
        sizes="results/{dataset}/laws/{model}/{law}/{group}/sizes.csv",
        code=script("plot_learning", "results/figures"),
    output:
        figure=figure("sizes_{model}_{law}_{group}", "3 Law", "Large runs that a law needs: {model}, {law}, {group}"),
    log:
        "results/{dataset}/logs/plot_sizes/{model}_{law}_{group}.log",
    conda:
        "../../envs/analysis.yaml"
    shell:
        RUN + r"plot_learning.py --sizes {input.sizes:q} --out {output.figure:q} 2>{log:q}"
