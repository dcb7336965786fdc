# Chapter 7: what a person looks at.
#   laws/**, losses/**, mixtures/**, tables/*.csv -> figures/*.svg, tables/comparison.csv, summary.txt
# The first mixture under `compare` is the reference that the others are measured against. `compare` is a group like any
# other to the rules that gather losses and mixtures. Captions of the report are in workflow/report.


rule plot_entropy:
    """Entropy measures of the domains."""
    input:
        entropy="results/{dataset}/entropy.csv",
        module="workflow/scripts/bimix/figures.py",
        script="workflow/scripts/plot_entropy.py",
    output:
        figure=report(
            "results/{dataset}/figures/entropy.svg",
            caption="../report/entropy.rst",
            category="2 Mixtures",
            subcategory="{dataset}",
            labels={"shows": "Entropy of the domains"},
        ),
    log:
        "results/{dataset}/logs/plot_entropy.log",
    benchmark:
        "results/{dataset}/benchmarks/plot_entropy.tsv"
    conda:
        "../../envs/analysis.yaml"
    shell:
        r"""
        python workflow/scripts/plot_entropy.py \
            --entropy {input.entropy:q} \
            --out {output.figure:q} \
            2>{log:q}
        """


rule plot_curves:
    """Entropies of the domains against the tokens they are estimated from."""
    input:
        curves="results/{dataset}/entropy_curves.csv",
        module="workflow/scripts/bimix/figures.py",
        script="workflow/scripts/plot_curves.py",
    output:
        figure=report(
            "results/{dataset}/figures/entropy_curves.svg",
            caption="../report/curves.rst",
            category="2 Mixtures",
            subcategory="{dataset}",
            labels={"shows": "Entropy against tokens seen"},
        ),
    log:
        "results/{dataset}/logs/plot_curves.log",
    benchmark:
        "results/{dataset}/benchmarks/plot_curves.tsv"
    conda:
        "../../envs/analysis.yaml"
    shell:
        r"""
        python workflow/scripts/plot_curves.py \
            --curves {input.curves:q} \
            --out {output.figure:q} \
            2>{log:q}
        """


rule plot_mixtures:
    """All mixtures side by side."""
    input:
        compared="results/{dataset}/mixtures/groups/compare.parquet",
        fitted=collect(
            "results/{{dataset}}/mixtures/groups/{group}.parquet",
            group=lookup("datasets/{dataset}/optimum/group", within=config),
        ),
        held_out=collect(
            "results/{{dataset}}/mixtures/groups/{group}.parquet",
            group=lookup("datasets/{dataset}/held_out", within=config),
        ),
        module="workflow/scripts/bimix/figures.py",
        script="workflow/scripts/plot_mixtures.py",
    output:
        figure=report(
            "results/{dataset}/figures/mixtures.svg",
            caption="../report/mixtures.rst",
            category="2 Mixtures",
            subcategory="{dataset}",
            labels={"shows": "Proportions of the domains"},
        ),
    log:
        "results/{dataset}/logs/plot_mixtures.log",
    benchmark:
        "results/{dataset}/benchmarks/plot_mixtures.tsv"
    conda:
        "../../envs/analysis.yaml"
    shell:
        r"""
        python workflow/scripts/plot_mixtures.py \
            --mixtures {input.compared:q} {input.fitted:q} {input.held_out:q} \
            --out {output.figure:q} \
            2>{log:q}
        """


rule plot_weights:
    """Weights of the domains while DoReMi or DoGE trains its model, and their average."""
    input:
        paths=reweighting_paths,
        reference=collect(
            "results/{{dataset}}/mixtures/{mixture}.json",
            mixture=lookup("datasets/{dataset}/reweighting/reference", within=config),
        ),
        module="workflow/scripts/bimix/figures.py",
        script="workflow/scripts/plot_weights.py",
    output:
        figure=report(
            "results/{dataset}/figures/weights_{reweighted}.svg",
            caption="../report/weights.rst",
            category="2 Mixtures",
            subcategory="{dataset}",
            labels={"shows": "Weights on the way: {reweighted}"},
        ),
    log:
        "results/{dataset}/logs/plot_weights/{reweighted}.log",
    benchmark:
        "results/{dataset}/benchmarks/plot_weights/{reweighted}.tsv"
    wildcard_constraints:
        dataset=REWEIGHTED,
        reweighted="doremi|doge",
    conda:
        "../../envs/analysis.yaml"
    params:
        reference=lookup("datasets/{dataset}/reweighting/reference", within=config),
    shell:
        r"""
        python workflow/scripts/plot_weights.py \
            --paths {input.paths:q} \
            --method {wildcards.reweighted:q} \
            --reference {params.reference:q} \
            --reference-mixture {input.reference:q} \
            --out {output.figure:q} \
            2>{log:q}
        """


rule plot_steps:
    """Loss against training steps (paper Fig. 1)."""
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
        module="workflow/scripts/bimix/figures.py",
        script="workflow/scripts/plot_steps.py",
    output:
        figure=report(
            "results/{dataset}/figures/steps_{model}_{law}_{group}.svg",
            caption="../report/steps.rst",
            category="3 Law",
            subcategory="{dataset}",
            labels={"shows": "Loss against steps: {model}, {law}, {group}"},
        ),
    log:
        "results/{dataset}/logs/plot_steps/{model}_{law}_{group}.log",
    benchmark:
        "results/{dataset}/benchmarks/plot_steps/{model}_{law}_{group}.tsv"
    conda:
        "../../envs/analysis.yaml"
    shell:
        r"""
        python workflow/scripts/plot_steps.py \
            --coefficients {input.coefficients:q} \
            --losses {input.losses:q} {input.held_out_losses:q} \
            --mixtures {input.mixtures:q} {input.held_out_mixtures:q} \
            --out {output.figure:q} \
            2>{log:q}
        """


rule plot_proportions:
    """Loss against a domain's own proportion (paper Fig. 2)."""
    input:
        coefficients="results/{dataset}/laws/{model}/{law}/{group}/coefficients.json",
        intervals=branch(
            has_runs(INTERVAL_RUNS),
            then="results/{dataset}/laws/{model}/{law}/{group}/intervals.csv",
            otherwise=[],
        ),
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
        module="workflow/scripts/bimix/figures.py",
        script="workflow/scripts/plot_proportions.py",
    output:
        figure=report(
            "results/{dataset}/figures/proportions_{model}_{law}_{group}.svg",
            caption="../report/proportions.rst",
            category="3 Law",
            subcategory="{dataset}",
            labels={"shows": "Loss against proportion: {model}, {law}, {group}"},
        ),
    log:
        "results/{dataset}/logs/plot_proportions/{model}_{law}_{group}.log",
    benchmark:
        "results/{dataset}/benchmarks/plot_proportions/{model}_{law}_{group}.tsv"
    conda:
        "../../envs/analysis.yaml"
    shell:
        r"""
        python workflow/scripts/plot_proportions.py \
            --coefficients {input.coefficients:q} \
            --losses {input.losses:q} {input.held_out_losses:q} \
            --mixtures {input.mixtures:q} {input.held_out_mixtures:q} \
            --intervals {input.intervals:q} \
            --out {output.figure:q} \
            2>{log:q}
        """


rule plot_predictions:
    """Predicted against observed loss of held-out mixtures (paper Fig. 3)."""
    input:
        coefficients="results/{dataset}/laws/{model}/{law}/{group}/coefficients.json",
        intervals=branch(
            has_runs(INTERVAL_RUNS),
            then="results/{dataset}/laws/{model}/{law}/{group}/intervals.csv",
            otherwise=[],
        ),
        predictions="results/{dataset}/laws/{model}/{law}/{group}/predictions.parquet",
        losses=collect(
            "results/{{dataset}}/losses/{{model}}/{name}.parquet",
            name=lookup("datasets/{dataset}/held_out", within=config),
        ),
        module="workflow/scripts/bimix/figures.py",
        script="workflow/scripts/plot_predictions.py",
    output:
        figure=report(
            "results/{dataset}/figures/predictions_{model}_{law}_{group}.svg",
            caption="../report/predictions.rst",
            category="3 Law",
            subcategory="{dataset}",
            labels={"shows": "Predicted against observed: {model}, {law}, {group}"},
        ),
    log:
        "results/{dataset}/logs/plot_predictions/{model}_{law}_{group}.log",
    benchmark:
        "results/{dataset}/benchmarks/plot_predictions/{model}_{law}_{group}.tsv"
    conda:
        "../../envs/analysis.yaml"
    shell:
        r"""
        python workflow/scripts/plot_predictions.py \
            --coefficients {input.coefficients:q} \
            --predictions {input.predictions:q} \
            --losses {input.losses:q} \
            --intervals {input.intervals:q} \
            --out {output.figure:q} \
            2>{log:q}
        """


rule plot_laws:
    """The laws on the same rows: errors, rank correlation, numbers fitted."""
    input:
        comparison="results/{dataset}/laws/{model}/comparison/{group}.csv",
        module="workflow/scripts/bimix/figures.py",
        script="workflow/scripts/plot_laws.py",
    output:
        figure=report(
            "results/{dataset}/figures/laws_{model}_{group}.svg",
            caption="../report/laws.rst",
            category="3 Law",
            subcategory="{dataset}",
            labels={"shows": "The laws side by side: {model}, {group}"},
        ),
    log:
        "results/{dataset}/logs/plot_laws/{model}_{group}.log",
    benchmark:
        "results/{dataset}/benchmarks/plot_laws/{model}_{group}.tsv"
    conda:
        "../../envs/analysis.yaml"
    shell:
        r"""
        python workflow/scripts/plot_laws.py \
            --comparison {input.comparison:q} \
            --out {output.figure:q} \
            2>{log:q}
        """


rule plot_learning:
    """Error and rank correlation against the number of mixtures fitted."""
    input:
        learning="results/{dataset}/laws/{model}/learning/{group}.csv",
        module="workflow/scripts/bimix/figures.py",
        script="workflow/scripts/plot_learning.py",
    output:
        figure=report(
            "results/{dataset}/figures/learning_{model}_{group}.svg",
            caption="../report/learning.rst",
            category="3 Law",
            subcategory="{dataset}",
            labels={"shows": "How many runs a law needs: {model}, {group}"},
        ),
    log:
        "results/{dataset}/logs/plot_learning/{model}_{group}.log",
    benchmark:
        "results/{dataset}/benchmarks/plot_learning/{model}_{group}.tsv"
    conda:
        "../../envs/analysis.yaml"
    shell:
        r"""
        python workflow/scripts/plot_learning.py \
            --learning {input.learning:q} \
            --out {output.figure:q} \
            2>{log:q}
        """


rule plot_optimum:
    """The optimum's proportions with their intervals, beside the mixture they are measured against."""
    input:
        coefficients="results/{dataset}/laws/{model}/{law}/{group}/coefficients.json",
        intervals="results/{dataset}/laws/{model}/{law}/{group}/intervals.csv",
        baseline=collect(
            "results/{{dataset}}/mixtures/{mixture}.json",
            mixture=lookup("datasets/{dataset}/compare/mixtures/0", within=config),
        ),
        module="workflow/scripts/bimix/figures.py",
        script="workflow/scripts/plot_optimum.py",
    output:
        figure=report(
            "results/{dataset}/figures/optimum_{model}_{law}_{group}.svg",
            caption="../report/optimum.rst",
            category="3 Law",
            subcategory="{dataset}",
            labels={"shows": "The optimum and its intervals: {model}, {law}, {group}"},
        ),
    log:
        "results/{dataset}/logs/plot_optimum/{model}_{law}_{group}.log",
    benchmark:
        "results/{dataset}/benchmarks/plot_optimum/{model}_{law}_{group}.tsv"
    conda:
        "../../envs/analysis.yaml"
    params:
        baseline=lookup("datasets/{dataset}/compare/mixtures/0", within=config),
    shell:
        r"""
        python workflow/scripts/plot_optimum.py \
            --coefficients {input.coefficients:q} \
            --intervals {input.intervals:q} \
            --baseline {params.baseline:q} \
            --baseline-mixture {input.baseline:q} \
            --out {output.figure:q} \
            2>{log:q}
        """


rule plot_path:
    """How the optimum moves with the training steps."""
    input:
        coefficients="results/{dataset}/laws/{model}/{law}/{group}/coefficients.json",
        path="results/{dataset}/laws/{model}/{law}/{group}/optimum_by_step.csv",
        baseline=collect(
            "results/{{dataset}}/mixtures/{mixture}.json",
            mixture=lookup("datasets/{dataset}/compare/mixtures/0", within=config),
        ),
        module="workflow/scripts/bimix/figures.py",
        script="workflow/scripts/plot_path.py",
    output:
        figure=report(
            "results/{dataset}/figures/path_{model}_{law}_{group}.svg",
            caption="../report/path.rst",
            category="3 Law",
            subcategory="{dataset}",
            labels={"shows": "The optimum by step: {model}, {law}, {group}"},
        ),
    log:
        "results/{dataset}/logs/plot_path/{model}_{law}_{group}.log",
    benchmark:
        "results/{dataset}/benchmarks/plot_path/{model}_{law}_{group}.tsv"
    conda:
        "../../envs/analysis.yaml"
    params:
        baseline=lookup("datasets/{dataset}/compare/mixtures/0", within=config),
        step=lookup("datasets/{dataset}/optimum/step", within=config),
        weights=lambda wildcards: json.dumps(DATASETS[wildcards.dataset]["optimum"].get("weights", {})),
    shell:
        r"""
        python workflow/scripts/plot_path.py \
            --coefficients {input.coefficients:q} \
            --path {input.path:q} \
            --baseline {params.baseline:q} \
            --baseline-mixture {input.baseline:q} \
            --step {params.step:q} \
            --weights {params.weights:q} \
            --out {output.figure:q} \
            2>{log:q}
        """


rule plot_perplexity:
    """Average log-perplexity against training steps (paper Fig. 5); beside a fitted group stand the held-out ones."""
    input:
        losses="results/{dataset}/losses/{model}/{group}.parquet",
        held_out=branch(
            lambda wildcards: wildcards.group != "compare",
            then=collect(
                "results/{{dataset}}/losses/{{model}}/{name}.parquet",
                name=lookup("datasets/{dataset}/held_out", within=config),
            ),
            otherwise=[],
        ),
        modules=["workflow/scripts/bimix/figures.py", "workflow/scripts/bimix/comparison.py"],
        script="workflow/scripts/plot_perplexity.py",
    output:
        figure=report(
            "results/{dataset}/figures/perplexity_{model}_{group}.svg",
            caption="../report/perplexity.rst",
            category="4 Training",
            subcategory="{dataset}",
            labels={"shows": "Average log-perplexity: {model}, {group}"},
        ),
    log:
        "results/{dataset}/logs/plot_perplexity/{model}_{group}.log",
    benchmark:
        "results/{dataset}/benchmarks/plot_perplexity/{model}_{group}.tsv"
    conda:
        "../../envs/analysis.yaml"
    params:
        reference=lookup("datasets/{dataset}/compare/mixtures/0", within=config),
    shell:
        r"""
        python workflow/scripts/plot_perplexity.py \
            --losses {input.losses:q} {input.held_out:q} \
            --reference {params.reference:q} \
            --out {output.figure:q} \
            2>{log:q}
        """


rule compare_mixtures:
    """How the large runs end, and the steps that each needs to get where the reference ends."""
    input:
        losses=collect(
            "results/{{dataset}}/losses/{model}/compare.parquet",
            model=lookup("datasets/{dataset}/compare/model", within=config),
        ),
        module="workflow/scripts/bimix/comparison.py",
        script="workflow/scripts/compare_mixtures.py",
    output:
        table=report(
            "results/{dataset}/tables/comparison.csv",
            caption="../report/comparison.rst",
            category="4 Training",
            subcategory="{dataset}",
            labels={"shows": "Comparison of the large runs (csv)"},
        ),
    log:
        "results/{dataset}/logs/compare_mixtures.log",
    benchmark:
        "results/{dataset}/benchmarks/compare_mixtures.tsv"
    conda:
        "../../envs/analysis.yaml"
    params:
        reference=lookup("datasets/{dataset}/compare/mixtures/0", within=config),
    shell:
        r"""
        python workflow/scripts/compare_mixtures.py \
            --losses {input.losses:q} \
            --reference {params.reference:q} \
            --out {output.table:q} \
            2>{log:q}
        """


rule summarize_results:
    """The result on one page of text; what it reads and lists is everything that a dataset's run makes."""
    input:
        coefficients=collect(
            "results/{{dataset}}/laws/{model}/{law}/{group}/coefficients.json",
            model=lookup("datasets/{dataset}/optimum/model", within=config),
            law=config["laws"]["optimise"],
            group=lookup("datasets/{dataset}/optimum/group", within=config),
        ),
        optimised=collect("results/{{dataset}}/mixtures/{law}.json", law=config["laws"]["optimise"]),
        reference=collect(
            "results/{{dataset}}/mixtures/{mixture}.json",
            mixture=lookup("datasets/{dataset}/compare/mixtures/0", within=config),
        ),
        extrapolation="results/{dataset}/tables/extrapolation.csv",
        generalization="results/{dataset}/tables/generalization.csv",
        comparison="results/{dataset}/tables/comparison.csv",
        laws="results/{dataset}/tables/laws.csv",
        complexity="results/{dataset}/tables/complexity.csv",
        intervals=branch(
            has_runs(INTERVAL_RUNS),
            then=collect(
                "results/{{dataset}}/laws/{model}/{law}/{group}/intervals.csv",
                model=lookup("datasets/{dataset}/optimum/model", within=config),
                law=RESAMPLED,
                group=lookup("datasets/{dataset}/optimum/group", within=config),
            ),
            otherwise=[],
        ),
        mixture_figures="results/{dataset}/figures/mixtures.svg",
        entropy_figure=branch(
            lookup("datasets/{dataset}/corpus", within=config, default=None),
            then=["results/{dataset}/figures/entropy.svg", "results/{dataset}/figures/entropy_curves.svg"],
            otherwise=[],
        ),
        entropy_choices=branch(
            lookup("datasets/{dataset}/corpus", within=config, default=None),
            then="results/{dataset}/tables/entropy_choices.csv",
            otherwise=[],
        ),
        law_figures=collect(
            "results/{{dataset}}/figures/{kind}_{model}_{law}_{group}.svg",
            kind=["steps", "proportions"],
            model=lookup("datasets/{dataset}/optimum/model", within=config),
            law=config["laws"]["optimise"],
            group=lookup("datasets/{dataset}/optimum/group", within=config),
        ),
        held_out_figures=branch(
            lookup("datasets/{dataset}/held_out", within=config),
            then=collect(
                "results/{{dataset}}/figures/predictions_{model}_{law}_{group}.svg",
                model=lookup("datasets/{dataset}/optimum/model", within=config),
                law=config["laws"]["optimise"],
                group=lookup("datasets/{dataset}/optimum/group", within=config),
            ),
            otherwise=[],
        ),
        optimum_figures=branch(
            has_runs(INTERVAL_RUNS),
            then=collect(
                "results/{{dataset}}/figures/optimum_{model}_{law}_{group}.svg",
                model=lookup("datasets/{dataset}/optimum/model", within=config),
                law=RESAMPLED,
                group=lookup("datasets/{dataset}/optimum/group", within=config),
            ),
            otherwise=[],
        ),
        path_figures=branch(
            has_path,
            then=collect(
                "results/{{dataset}}/figures/path_{model}_{law}_{group}.svg",
                model=lookup("datasets/{dataset}/optimum/model", within=config),
                law=RESAMPLED,
                group=lookup("datasets/{dataset}/optimum/group", within=config),
            ),
            otherwise=[],
        ),
        compared_laws_figure=collect(
            "results/{{dataset}}/figures/laws_{model}_{group}.svg",
            model=lookup("datasets/{dataset}/optimum/model", within=config),
            group=lookup("datasets/{dataset}/optimum/group", within=config),
        ),
        learning_figure=branch(
            has_runs(LEARNING_RUNS),
            then=collect(
                "results/{{dataset}}/figures/learning_{model}_{group}.svg",
                model=lookup("datasets/{dataset}/optimum/model", within=config),
                group=lookup("datasets/{dataset}/optimum/group", within=config),
            ),
            otherwise=[],
        ),
        fitted_figure=collect(
            "results/{{dataset}}/figures/perplexity_{model}_{group}.svg",
            model=lookup("datasets/{dataset}/optimum/model", within=config),
            group=lookup("datasets/{dataset}/optimum/group", within=config),
        ),
        compared_figure=collect(
            "results/{{dataset}}/figures/perplexity_{model}_compare.svg",
            model=lookup("datasets/{dataset}/compare/model", within=config),
        ),
        answers=branch(
            lookup("datasets/{dataset}/downstream", within=config, default=None),
            then="results/{dataset}/tables/downstream.csv",
            otherwise=[],
        ),
        answer_figures=branch(
            lookup("datasets/{dataset}/downstream", within=config, default=None),
            then=["results/{dataset}/figures/downstream.svg", "results/{dataset}/figures/downstream_tasks.svg"],
            otherwise=[],
        ),
        module="workflow/scripts/bimix/summary.py",
        script="workflow/scripts/summarize_results.py",
    output:
        text="results/{dataset}/summary.txt",
        page=report(
            "results/{dataset}/summary.html",
            caption="../report/summary.rst",
            category="1 Summary",
            subcategory="{dataset}",
            labels={"shows": "The result on one page"},
        ),
    log:
        "results/{dataset}/logs/summarize_results.log",
    benchmark:
        "results/{dataset}/benchmarks/summarize_results.tsv"
    conda:
        "../../envs/analysis.yaml"
    params:
        fitted_model=lookup("datasets/{dataset}/optimum/model", within=config),
        compared_model=lookup("datasets/{dataset}/compare/model", within=config),
        step=lookup("datasets/{dataset}/optimum/step", within=config),
        weights=lambda wildcards: json.dumps(DATASETS[wildcards.dataset]["optimum"].get("weights", {})),
        reference=lookup("datasets/{dataset}/compare/mixtures/0", within=config),
    shell:
        r"""
        python workflow/scripts/summarize_results.py \
            --dataset {wildcards.dataset:q} \
            --fitted-model {params.fitted_model:q} \
            --compared-model {params.compared_model:q} \
            --step {params.step:q} \
            --weights {params.weights:q} \
            --coefficients {input.coefficients:q} \
            --optimised {input.optimised:q} \
            --reference {params.reference:q} \
            --reference-mixture {input.reference:q} \
            --extrapolation {input.extrapolation:q} \
            --generalization {input.generalization:q} \
            --comparison {input.comparison:q} \
            --laws {input.laws:q} \
            --intervals {input.intervals:q} \
            --figures {input.mixture_figures:q} {input.entropy_figure:q} {input.law_figures:q} {input.held_out_figures:q} \
            {input.optimum_figures:q} {input.path_figures:q} {input.compared_laws_figure:q} {input.learning_figure:q} \
            {input.fitted_figure:q} {input.compared_figure:q} {input.answer_figures:q} \
            --answers {input.answers:q} \
            --out {output.text:q} \
            --page {output.page:q} \
            2>{log:q}
        """
