# Scores: how well a law predicts, and the laws side by side on the same rows.
#   coefficients.json -> extrapolation.csv, generalization.csv
#       -> tables/extrapolation.csv, tables/generalization.csv
#   losses/{model}/{group}.parquet -> laws/{model}/comparison/, laws/{model}/learning/
#       -> tables/laws.csv, tables/complexity.csv
#   all of these -> figures/predictions_*.svg, figures/learning_*.svg


rule score_law:
    """Score a law on the last step of every mixture and on the mixtures held out."""
    input:
        coefficients="results/{dataset}/laws/{model}/{law}/{group}/coefficients.json",
        losses="results/{dataset}/losses/{model}/{group}.parquet",
        mixtures="results/{dataset}/mixtures/groups/{group}.parquet",
        held_out_losses=collect("results/{{dataset}}/losses/{{model}}/{name}.parquet", name=setting("held_out")),
        held_out_mixtures=collect("results/{{dataset}}/mixtures/groups/{name}.parquet", name=setting("held_out")),
        code=script("score_law", "judge/errors"),
    output:
        extrapolation="results/{dataset}/laws/{model}/{law}/{group}/extrapolation.csv",
        generalization="results/{dataset}/laws/{model}/{law}/{group}/generalization.csv",
    log:
        "results/{dataset}/logs/score_law/{model}/{law}/{group}.log",
    conda:
        "../../envs/analysis.yaml"
    shell:
        RUN + r"""score_law.py \
            --coefficients {input.coefficients:q} \
            --losses {input.losses:q} \
            --mixtures {input.mixtures:q} \
            --held-out-losses {input.held_out_losses:q} \
            --held-out-mixtures {input.held_out_mixtures:q} \
            --extrapolation {output.extrapolation:q} \
            --generalization {output.generalization:q} \
            2>{log:q}
        """


rule tabulate_extrapolation:
    """The paper's Table 2 for this dataset: mean, worst and best over domains."""
    input:
        scores=fitted(
            "results/{{dataset}}/laws/{model}/{law}/{group}/extrapolation.csv", law=config["laws"]["optimise"]
        ),
        code=script("tabulate_scores", "judge/errors"),
    output:
        table=table("extrapolation", "3 Law", "Extrapolation, Table 2 (csv)"),
    log:
        "results/{dataset}/logs/tabulate_extrapolation.log",
    conda:
        "../../envs/analysis.yaml"
    shell:
        RUN + r"""tabulate_scores.py --table extrapolation --scores {input.scores:q} --out {output.table:q} \
            2>{log:q}
        """


rule tabulate_generalization:
    """The paper's Table 3 for this dataset, where it holds groups out."""
    input:
        scores=fitted(
            "results/{{dataset}}/laws/{model}/{law}/{group}/generalization.csv", law=config["laws"]["optimise"]
        ),
        code=script("tabulate_scores", "judge/errors"),
    output:
        table=table("generalization", "3 Law", "Generalisation, Table 3 (csv)"),
    log:
        "results/{dataset}/logs/tabulate_generalization.log",
    conda:
        "../../envs/analysis.yaml"
    shell:
        RUN + r"""tabulate_scores.py --table generalization --scores {input.scores:q} --out {output.table:q} \
            2>{log:q}
        """


rule plot_predictions:
    """Predicted against observed loss of held-out mixtures (paper Fig. 3)."""
    input:
        coefficients="results/{dataset}/laws/{model}/{law}/{group}/coefficients.json",
        intervals=planned(inputs.intervals),
        predictions="results/{dataset}/laws/{model}/{law}/{group}/predictions.parquet",
        losses=collect("results/{{dataset}}/losses/{{model}}/{name}.parquet", name=setting("held_out")),
        code=script("plot_predictions", "results/figures"),
    output:
        figure=figure(
            "predictions_{model}_{law}_{group}", "3 Law", "Predicted against measured loss: {model}, {law}, {group}"
        ),
    log:
        "results/{dataset}/logs/plot_predictions/{model}_{law}_{group}.log",
    conda:
        "../../envs/analysis.yaml"
    shell:
        RUN + r"""plot_predictions.py \
            --coefficients {input.coefficients:q} \
            --predictions {input.predictions:q} \
            --losses {input.losses:q} \
            --intervals {input.intervals:q} \
            --out {output.figure:q} \
            2>{log:q}
        """


rule compare_laws:
    """Every law on the same rows: extrapolation, held-out mixtures, mixtures left out, number of
    coefficients.
    """
    input:
        losses="results/{dataset}/losses/{model}/{group}.parquet",
        mixtures="results/{dataset}/mixtures/groups/{group}.parquet",
        held_out_losses=collect("results/{{dataset}}/losses/{{model}}/{name}.parquet", name=setting("held_out")),
        held_out_mixtures=collect("results/{{dataset}}/mixtures/groups/{name}.parquet", name=setting("held_out")),
        prior=planned(inputs.prior),
        code=script("compare_laws", "judge/law_scores", "judge/errors"),
    output:
        comparison="results/{dataset}/laws/{model}/comparison/{group}.csv",
    log:
        "results/{dataset}/logs/compare_laws/{model}/{group}.log",
    benchmark:
        "results/{dataset}/benchmarks/compare_laws/{model}/{group}.tsv"
    conda:
        "../../envs/analysis.yaml"
    params:
        domain_groups=as_json("datasets/{dataset}/domain_groups", {}),
        brought=brought(as_json("datasets/{dataset}/domain_groups", {})),
        laws=config["laws"]["compare"],
    shell:
        RUN + r"""compare_laws.py \
            --laws {params.laws:q} \
            --losses {input.losses:q} \
            --mixtures {input.mixtures:q} \
            --held-out-losses {input.held_out_losses:q} \
            --held-out-mixtures {input.held_out_mixtures:q} \
            --prior {input.prior:q} \
            --domain-groups {params.domain_groups:q} \
            --out {output.comparison:q} \
            2>{log:q}
        """


rule tabulate_laws:
    """The laws side by side, and the paper's complexity table for this dataset."""
    input:
        comparison=fitted("results/{{dataset}}/laws/{model}/comparison/{group}.csv"),
        losses=fitted("results/{{dataset}}/losses/{model}/{group}.parquet"),
        mixtures=fitted("results/{{dataset}}/mixtures/groups/{group}.parquet"),
        code=script("tabulate_laws", "judge/law_scores"),
    output:
        laws=table("laws", "3 Law", "The laws side by side (csv)", caption="laws_table"),
        complexity=table("complexity", "3 Law", "Complexity of the laws (csv)"),
    log:
        "results/{dataset}/logs/tabulate_laws.log",
    conda:
        "../../envs/analysis.yaml"
    shell:
        RUN + r"""tabulate_laws.py \
            --comparison {input.comparison:q} \
            --losses {input.losses:q} \
            --mixtures {input.mixtures:q} \
            --laws-table {output.laws:q} \
            --complexity-table {output.complexity:q} \
            2>{log:q}
        """


rule trace_learning:
    """Error and rank correlation against the number of mixtures fitted, for every law."""
    input:
        losses="results/{dataset}/losses/{model}/{group}.parquet",
        mixtures="results/{dataset}/mixtures/groups/{group}.parquet",
        prior=planned(inputs.prior),
        code=script("trace_learning", "judge/law_scores", "judge/errors"),
    output:
        learning="results/{dataset}/laws/{model}/learning/{group}.csv",
    log:
        "results/{dataset}/logs/trace_learning/{model}/{group}.log",
    benchmark:
        "results/{dataset}/benchmarks/trace_learning/{model}/{group}.tsv"
    conda:
        "../../envs/analysis.yaml"
    params:
        domain_groups=as_json("datasets/{dataset}/domain_groups", {}),
        brought=brought(as_json("datasets/{dataset}/domain_groups", {})),
        laws=config["laws"]["compare"],
        seed=config["laws"]["seed"],
    shell:
        RUN + r"""trace_learning.py \
            --laws {params.laws:q} \
            --losses {input.losses:q} \
            --mixtures {input.mixtures:q} \
            --counts 4 6 8 12 16 32 64 128 256 512 \
            --draws 5 \
            --seed {params.seed:q} \
            --prior {input.prior:q} \
            --domain-groups {params.domain_groups:q} \
            --out {output.learning:q} \
            2>{log:q}
        """


rule plot_learning:
    """Error and rank correlation against the number of mixtures fitted."""
    input:
        learning="results/{dataset}/laws/{model}/learning/{group}.csv",
        code=script("plot_learning", "results/figures"),
    output:
        figure=figure("learning_{model}_{group}", "3 Law", "How many runs a law needs: {model}, {group}"),
    log:
        "results/{dataset}/logs/plot_learning/{model}_{group}.log",
    conda:
        "../../envs/analysis.yaml"
    shell:
        RUN + r"plot_learning.py --learning {input.learning:q} --out {output.figure:q} 2>{log:q}"
