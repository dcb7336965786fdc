# Chapter 4: laws.
#   losses/{model}/{group}.parquet, mixtures/groups/{group}.parquet -> laws/{model}/{law}/{group}/ -> mixtures/{law}.json, tables/*.csv
#   comparison.csv -> tables/laws.csv, tables/complexity.csv; coefficients -> intervals.csv, optimum_by_step.csv
# A law is fitted to one group of mixtures; the groups under `held_out` are never fitted, only predicted. fit_law
# and optimize_mixture do not list their scripts, since a large run follows from them: `snakemake -R fit_law` after a change.


rule fit_law:
    """Fit a mixing law to the losses of a group of mixtures."""
    input:
        losses="results/{dataset}/losses/{model}/{group}.parquet",
        mixtures="results/{dataset}/mixtures/groups/{group}.parquet",
    output:
        coefficients="results/{dataset}/laws/{model}/{law}/{group}/coefficients.json",
    log:
        "results/{dataset}/logs/fit_law/{model}/{law}/{group}.log",
    benchmark:
        "results/{dataset}/benchmarks/fit_law/{model}/{law}/{group}.tsv"
    conda:
        "../../envs/analysis.yaml"
    shell:
        r"""
        python workflow/scripts/fit_law.py \
            --law {wildcards.law:q} \
            --losses {input.losses:q} \
            --mixtures {input.mixtures:q} \
            --out {output.coefficients:q} \
            2>{log:q}
        """


rule predict_losses:
    """Predict every mixture of the dataset, fitted or held out, at the steps of the fit."""
    input:
        coefficients="results/{dataset}/laws/{model}/{law}/{group}/coefficients.json",
        mixtures=collect(
            "results/{{dataset}}/mixtures/groups/{name}.parquet",
            name=lookup("datasets/{dataset}/held_out", within=config),
        ),
        fitted="results/{dataset}/mixtures/groups/{group}.parquet",
        script="workflow/scripts/predict_losses.py",
    output:
        predictions="results/{dataset}/laws/{model}/{law}/{group}/predictions.parquet",
    log:
        "results/{dataset}/logs/predict_losses/{model}/{law}/{group}.log",
    benchmark:
        "results/{dataset}/benchmarks/predict_losses/{model}/{law}/{group}.tsv"
    conda:
        "../../envs/analysis.yaml"
    shell:
        r"""
        python workflow/scripts/predict_losses.py \
            --coefficients {input.coefficients:q} \
            --mixtures {input.fitted:q} {input.mixtures:q} \
            --out {output.predictions:q} \
            2>{log:q}
        """


rule score_law:
    """Score a law on the last step of every mixture and on the mixtures held out."""
    input:
        coefficients="results/{dataset}/laws/{model}/{law}/{group}/coefficients.json",
        losses="results/{dataset}/losses/{model}/{group}.parquet",
        mixtures="results/{dataset}/mixtures/groups/{group}.parquet",
        held_out_losses=collect(
            "results/{{dataset}}/losses/{{model}}/{name}.parquet",
            name=lookup("datasets/{dataset}/held_out", within=config),
        ),
        held_out_mixtures=collect(
            "results/{{dataset}}/mixtures/groups/{name}.parquet",
            name=lookup("datasets/{dataset}/held_out", within=config),
        ),
        script="workflow/scripts/score_law.py",
        scores="workflow/scripts/bimix/scores.py",
    output:
        extrapolation="results/{dataset}/laws/{model}/{law}/{group}/extrapolation.csv",
        generalization="results/{dataset}/laws/{model}/{law}/{group}/generalization.csv",
    log:
        "results/{dataset}/logs/score_law/{model}/{law}/{group}.log",
    benchmark:
        "results/{dataset}/benchmarks/score_law/{model}/{law}/{group}.tsv"
    conda:
        "../../envs/analysis.yaml"
    shell:
        r"""
        python workflow/scripts/score_law.py \
            --coefficients {input.coefficients:q} \
            --losses {input.losses:q} \
            --mixtures {input.mixtures:q} \
            --held-out-losses {input.held_out_losses:q} \
            --held-out-mixtures {input.held_out_mixtures:q} \
            --extrapolation {output.extrapolation:q} \
            --generalization {output.generalization:q} \
            2>{log:q}
        """


rule tabulate_scores:
    """The paper's Tables 2 and 3 for this dataset: mean, worst and best over domains."""
    input:
        extrapolation=collect(
            "results/{{dataset}}/laws/{model}/{law}/{group}/extrapolation.csv",
            model=lookup("datasets/{dataset}/optimum/model", within=config),
            law=config["laws"]["optimise"],
            group=lookup("datasets/{dataset}/optimum/group", within=config),
        ),
        generalization=collect(
            "results/{{dataset}}/laws/{model}/{law}/{group}/generalization.csv",
            model=lookup("datasets/{dataset}/optimum/model", within=config),
            law=config["laws"]["optimise"],
            group=lookup("datasets/{dataset}/optimum/group", within=config),
        ),
        script="workflow/scripts/tabulate_scores.py",
    output:
        extrapolation=report(
            "results/{dataset}/tables/extrapolation.csv",
            caption="../report/extrapolation.rst",
            category="3 Law",
            subcategory="{dataset}",
            labels={"shows": "Extrapolation, Table 2 (csv)"},
        ),
        generalization=report(
            "results/{dataset}/tables/generalization.csv",
            caption="../report/generalization.rst",
            category="3 Law",
            subcategory="{dataset}",
            labels={"shows": "Generalisation, Table 3 (csv)"},
        ),
    log:
        "results/{dataset}/logs/tabulate_scores.log",
    benchmark:
        "results/{dataset}/benchmarks/tabulate_scores.tsv"
    conda:
        "../../envs/analysis.yaml"
    shell:
        r"""
        python workflow/scripts/tabulate_scores.py \
            --extrapolation {input.extrapolation:q} \
            --generalization {input.generalization:q} \
            --extrapolation-table {output.extrapolation:q} \
            --generalization-table {output.generalization:q} \
            2>{log:q}
        """


rule optimize_mixture:
    """The mixture with the least predicted loss, trained on like any other."""
    input:
        coefficients=optimum_coefficients,
        tokens=optimum_tokens,
    output:
        mixture="results/{dataset}/mixtures/{optimised}.json",
    log:
        "results/{dataset}/logs/optimize_mixture/{optimised}.log",
    benchmark:
        "results/{dataset}/benchmarks/optimize_mixture/{optimised}.tsv"
    conda:
        "../../envs/analysis.yaml"
    params:
        step=lambda wildcards: optimum_source(wildcards)[3],
        weights=lambda wildcards: json.dumps(DATASETS[wildcards.dataset]["optimum"].get("weights", {})),
        lower=lambda wildcards: json.dumps(DATASETS[wildcards.dataset]["optimum"].get("lower", {})),
        upper=lambda wildcards: json.dumps(DATASETS[wildcards.dataset]["optimum"].get("upper", {})),
        max_epochs=lookup("datasets/{dataset}/optimum/max_epochs", within=config, default="inf"),
        run_tokens=optimum_run_tokens,
    shell:
        r"""
        python workflow/scripts/optimize_mixture.py \
            --coefficients {input.coefficients:q} \
            --step {params.step:q} \
            --weights {params.weights:q} \
            --lower {params.lower:q} \
            --upper {params.upper:q} \
            --max-epochs {params.max_epochs:q} \
            --tokens {input.tokens:q} \
            $([ {params.run_tokens} = none ] || echo --run-tokens {params.run_tokens}) \
            --out {output.mixture:q} \
            2>{log:q}
        """


rule compare_laws:
    """Every law on the same rows: extrapolation, held-out mixtures, mixtures left out, number of coefficients."""
    input:
        losses="results/{dataset}/losses/{model}/{group}.parquet",
        mixtures="results/{dataset}/mixtures/groups/{group}.parquet",
        held_out_losses=collect(
            "results/{{dataset}}/losses/{{model}}/{name}.parquet",
            name=lookup("datasets/{dataset}/held_out", within=config),
        ),
        held_out_mixtures=collect(
            "results/{{dataset}}/mixtures/groups/{name}.parquet",
            name=lookup("datasets/{dataset}/held_out", within=config),
        ),
        script="workflow/scripts/compare_laws.py",
        rivals="workflow/scripts/bimix/rivals.py",
    output:
        comparison="results/{dataset}/laws/{model}/comparison/{group}.csv",
    log:
        "results/{dataset}/logs/compare_laws/{model}/{group}.log",
    benchmark:
        "results/{dataset}/benchmarks/compare_laws/{model}/{group}.tsv"
    conda:
        "../../envs/analysis.yaml"
    params:
        laws=lookup("laws/compare", within=config),
    shell:
        r"""
        python workflow/scripts/compare_laws.py \
            --laws {params.laws:q} \
            --losses {input.losses:q} \
            --mixtures {input.mixtures:q} \
            --held-out-losses {input.held_out_losses:q} \
            --held-out-mixtures {input.held_out_mixtures:q} \
            --out {output.comparison:q} \
            2>{log:q}
        """


rule tabulate_laws:
    """The laws side by side, and the paper's complexity table for this dataset."""
    input:
        comparison=collect(
            "results/{{dataset}}/laws/{model}/comparison/{group}.csv",
            model=lookup("datasets/{dataset}/optimum/model", within=config),
            group=lookup("datasets/{dataset}/optimum/group", within=config),
        ),
        losses=collect(
            "results/{{dataset}}/losses/{model}/{group}.parquet",
            model=lookup("datasets/{dataset}/optimum/model", within=config),
            group=lookup("datasets/{dataset}/optimum/group", within=config),
        ),
        mixtures=collect(
            "results/{{dataset}}/mixtures/groups/{group}.parquet",
            group=lookup("datasets/{dataset}/optimum/group", within=config),
        ),
        script="workflow/scripts/tabulate_laws.py",
        rivals="workflow/scripts/bimix/rivals.py",
    output:
        laws=report(
            "results/{dataset}/tables/laws.csv",
            caption="../report/laws_table.rst",
            category="3 Law",
            subcategory="{dataset}",
            labels={"shows": "The laws side by side (csv)"},
        ),
        complexity=report(
            "results/{dataset}/tables/complexity.csv",
            caption="../report/complexity.rst",
            category="3 Law",
            subcategory="{dataset}",
            labels={"shows": "Complexity of the laws (csv)"},
        ),
    log:
        "results/{dataset}/logs/tabulate_laws.log",
    benchmark:
        "results/{dataset}/benchmarks/tabulate_laws.tsv"
    conda:
        "../../envs/analysis.yaml"
    shell:
        r"""
        python workflow/scripts/tabulate_laws.py \
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
        script="workflow/scripts/trace_learning.py",
        rivals="workflow/scripts/bimix/rivals.py",
    output:
        learning="results/{dataset}/laws/{model}/learning/{group}.csv",
    log:
        "results/{dataset}/logs/trace_learning/{model}/{group}.log",
    benchmark:
        "results/{dataset}/benchmarks/trace_learning/{model}/{group}.tsv"
    conda:
        "../../envs/analysis.yaml"
    params:
        laws=lookup("laws/compare", within=config),
        counts=lookup("laws/learning/counts", within=config),
        draws=lookup("laws/learning/draws", within=config),
        seed=lookup("laws/seed", within=config),
    shell:
        r"""
        python workflow/scripts/trace_learning.py \
            --laws {params.laws:q} \
            --losses {input.losses:q} \
            --mixtures {input.mixtures:q} \
            --counts {params.counts:q} \
            --draws {params.draws:q} \
            --seed {params.seed:q} \
            --out {output.learning:q} \
            2>{log:q}
        """


rule estimate_intervals:
    """Intervals of predictions and the optimum's gain from runs left out, of coefficients and its proportions by bootstrap."""
    input:
        coefficients="results/{dataset}/laws/{model}/{law}/{group}/coefficients.json",
        losses="results/{dataset}/losses/{model}/{group}.parquet",
        mixtures="results/{dataset}/mixtures/groups/{group}.parquet",
        held_out=collect(
            "results/{{dataset}}/mixtures/groups/{name}.parquet",
            name=lookup("datasets/{dataset}/held_out", within=config),
        ),
        baseline=collect(
            "results/{{dataset}}/mixtures/{mixture}.json",
            mixture=lookup("datasets/{dataset}/compare/mixtures/0", within=config),
        ),
        tokens=token_counts,
        script="workflow/scripts/estimate_intervals.py",
        uncertainty="workflow/scripts/bimix/uncertainty.py",
    output:
        intervals="results/{dataset}/laws/{model}/{law}/{group}/intervals.csv",
    log:
        "results/{dataset}/logs/estimate_intervals/{model}/{law}/{group}.log",
    benchmark:
        "results/{dataset}/benchmarks/estimate_intervals/{model}/{law}/{group}.tsv"
    conda:
        "../../envs/analysis.yaml"
    params:
        step=lookup("datasets/{dataset}/optimum/step", within=config),
        baseline=lookup("datasets/{dataset}/compare/mixtures/0", within=config),
        resample=lookup("laws/intervals/resample", within=config),
        bootstrap=lookup("laws/intervals/bootstrap", within=config),
        resamples=lookup("laws/intervals/resamples", within=config),
        level=lookup("laws/intervals/level", within=config),
        seed=lookup("laws/seed", within=config),
        weights=lambda wildcards: json.dumps(DATASETS[wildcards.dataset]["optimum"].get("weights", {})),
        lower=lambda wildcards: json.dumps(DATASETS[wildcards.dataset]["optimum"].get("lower", {})),
        upper=lambda wildcards: json.dumps(DATASETS[wildcards.dataset]["optimum"].get("upper", {})),
        max_epochs=lookup("datasets/{dataset}/optimum/max_epochs", within=config, default="inf"),
    shell:
        r"""
        python workflow/scripts/estimate_intervals.py \
            --coefficients {input.coefficients:q} \
            --losses {input.losses:q} \
            --mixtures {input.mixtures:q} \
            --predict {input.held_out:q} \
            --step {params.step:q} \
            --baseline {params.baseline:q} \
            --baseline-mixture {input.baseline:q} \
            --resample {params.resample:q} \
            --bootstrap {params.bootstrap:q} \
            --resamples {params.resamples:q} \
            --level {params.level:q} \
            --seed {params.seed:q} \
            --weights {params.weights:q} \
            --lower {params.lower:q} \
            --upper {params.upper:q} \
            --max-epochs {params.max_epochs:q} \
            --tokens {input.tokens:q} \
            --out {output.intervals:q} \
            2>{log:q}
        """


rule trace_optimum:
    """How the optimum moves with the training steps."""
    input:
        coefficients="results/{dataset}/laws/{model}/{law}/{group}/coefficients.json",
        tokens=token_counts,
        script="workflow/scripts/trace_optimum.py",
        optimum="workflow/scripts/bimix/optimum.py",
    output:
        path="results/{dataset}/laws/{model}/{law}/{group}/optimum_by_step.csv",
    log:
        "results/{dataset}/logs/trace_optimum/{model}/{law}/{group}.log",
    benchmark:
        "results/{dataset}/benchmarks/trace_optimum/{model}/{law}/{group}.tsv"
    conda:
        "../../envs/analysis.yaml"
    params:
        step=lookup("datasets/{dataset}/optimum/step", within=config),
        weights=lambda wildcards: json.dumps(DATASETS[wildcards.dataset]["optimum"].get("weights", {})),
        lower=lambda wildcards: json.dumps(DATASETS[wildcards.dataset]["optimum"].get("lower", {})),
        upper=lambda wildcards: json.dumps(DATASETS[wildcards.dataset]["optimum"].get("upper", {})),
        max_epochs=lookup("datasets/{dataset}/optimum/max_epochs", within=config, default="inf"),
    shell:
        r"""
        python workflow/scripts/trace_optimum.py \
            --coefficients {input.coefficients:q} \
            --step {params.step:q} \
            --weights {params.weights:q} \
            --lower {params.lower:q} \
            --upper {params.upper:q} \
            --max-epochs {params.max_epochs:q} \
            --tokens {input.tokens:q} \
            --out {output.path:q} \
            2>{log:q}
        """
