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
        figure=shown("results/{dataset}/figures/entropy.svg", "entropy", "2 Mixtures", "Entropy of the domains"),
    log:
        "results/{dataset}/logs/plot_entropy.log",
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
        figure=shown(
            "results/{dataset}/figures/entropy_curves.svg", "curves", "2 Mixtures", "Entropy against tokens seen"
        ),
    log:
        "results/{dataset}/logs/plot_curves.log",
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
        fitted=fitted("results/{{dataset}}/mixtures/groups/{group}.parquet"),
        held_out=collect("results/{{dataset}}/mixtures/groups/{group}.parquet", group=setting("held_out")),
        module="workflow/scripts/bimix/figures.py",
        script="workflow/scripts/plot_mixtures.py",
    output:
        figure=shown("results/{dataset}/figures/mixtures.svg", "mixtures", "2 Mixtures", "Proportions of the domains"),
    log:
        "results/{dataset}/logs/plot_mixtures.log",
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
        paths=planned(sources.reweighting_paths),
        reference=collect("results/{{dataset}}/mixtures/{mixture}.json", mixture=setting("reweighting/reference")),
        module="workflow/scripts/bimix/figures.py",
        script="workflow/scripts/plot_weights.py",
    output:
        figure=shown(
            "results/{dataset}/figures/weights_{reweighted}.svg",
            "weights",
            "2 Mixtures",
            "Weights on the way: {reweighted}",
        ),
    log:
        "results/{dataset}/logs/plot_weights/{reweighted}.log",
    wildcard_constraints:
        dataset=datasets_with("reweighting"),
        reweighted="doremi|doge",
    conda:
        "../../envs/analysis.yaml"
    params:
        reference=setting("reweighting/reference"),
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
        held_out_losses=collect("results/{{dataset}}/losses/{{model}}/{name}.parquet", name=setting("held_out")),
        held_out_mixtures=collect("results/{{dataset}}/mixtures/groups/{name}.parquet", name=setting("held_out")),
        module="workflow/scripts/bimix/figures.py",
        script="workflow/scripts/plot_steps.py",
    output:
        figure=shown(
            "results/{dataset}/figures/steps_{model}_{law}_{group}.svg",
            "steps",
            "3 Law",
            "Loss against steps: {model}, {law}, {group}",
        ),
    log:
        "results/{dataset}/logs/plot_steps/{model}_{law}_{group}.log",
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
        intervals=planned(runs.interval_tables),
        losses="results/{dataset}/losses/{model}/{group}.parquet",
        mixtures="results/{dataset}/mixtures/groups/{group}.parquet",
        held_out_losses=collect("results/{{dataset}}/losses/{{model}}/{name}.parquet", name=setting("held_out")),
        held_out_mixtures=collect("results/{{dataset}}/mixtures/groups/{name}.parquet", name=setting("held_out")),
        module="workflow/scripts/bimix/figures.py",
        script="workflow/scripts/plot_proportions.py",
    output:
        figure=shown(
            "results/{dataset}/figures/proportions_{model}_{law}_{group}.svg",
            "proportions",
            "3 Law",
            "Loss against proportion: {model}, {law}, {group}",
        ),
    log:
        "results/{dataset}/logs/plot_proportions/{model}_{law}_{group}.log",
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
        intervals=planned(runs.interval_tables),
        predictions="results/{dataset}/laws/{model}/{law}/{group}/predictions.parquet",
        losses=collect("results/{{dataset}}/losses/{{model}}/{name}.parquet", name=setting("held_out")),
        module="workflow/scripts/bimix/figures.py",
        script="workflow/scripts/plot_predictions.py",
    output:
        figure=shown(
            "results/{dataset}/figures/predictions_{model}_{law}_{group}.svg",
            "predictions",
            "3 Law",
            "Predicted against observed: {model}, {law}, {group}",
        ),
    log:
        "results/{dataset}/logs/plot_predictions/{model}_{law}_{group}.log",
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
        figure=shown(
            "results/{dataset}/figures/laws_{model}_{group}.svg",
            "laws",
            "3 Law",
            "The laws side by side: {model}, {group}",
        ),
    log:
        "results/{dataset}/logs/plot_laws/{model}_{group}.log",
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
        figure=shown(
            "results/{dataset}/figures/learning_{model}_{group}.svg",
            "learning",
            "3 Law",
            "How many runs a law needs: {model}, {group}",
        ),
    log:
        "results/{dataset}/logs/plot_learning/{model}_{group}.log",
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
        baseline=collect("results/{{dataset}}/mixtures/{mixture}.json", mixture=setting("compare/mixtures/0")),
        module="workflow/scripts/bimix/figures.py",
        script="workflow/scripts/plot_optimum.py",
    output:
        figure=shown(
            "results/{dataset}/figures/optimum_{model}_{law}_{group}.svg",
            "optimum",
            "3 Law",
            "The optimum and its intervals: {model}, {law}, {group}",
        ),
    log:
        "results/{dataset}/logs/plot_optimum/{model}_{law}_{group}.log",
    conda:
        "../../envs/analysis.yaml"
    params:
        baseline=setting("compare/mixtures/0"),
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
        baseline=collect("results/{{dataset}}/mixtures/{mixture}.json", mixture=setting("compare/mixtures/0")),
        module="workflow/scripts/bimix/figures.py",
        script="workflow/scripts/plot_path.py",
    output:
        figure=shown(
            "results/{dataset}/figures/path_{model}_{law}_{group}.svg",
            "path",
            "3 Law",
            "The optimum by step: {model}, {law}, {group}",
        ),
    log:
        "results/{dataset}/logs/plot_path/{model}_{law}_{group}.log",
    conda:
        "../../envs/analysis.yaml"
    params:
        baseline=setting("compare/mixtures/0"),
        step=setting("optimum/step"),
    shell:
        r"""
        python workflow/scripts/plot_path.py \
            --coefficients {input.coefficients:q} \
            --path {input.path:q} \
            --baseline {params.baseline:q} \
            --baseline-mixture {input.baseline:q} \
            --step {params.step:q} \
            --out {output.figure:q} \
            2>{log:q}
        """


rule plot_perplexity:
    """Average log-perplexity against training steps (paper Fig. 5); beside a fitted group stand the held-out ones."""
    input:
        losses="results/{dataset}/losses/{model}/{group}.parquet",
        held_out=branch(
            lambda wildcards: wildcards.group != "compare",
            then=collect("results/{{dataset}}/losses/{{model}}/{name}.parquet", name=setting("held_out")),
            otherwise=[],
        ),
        modules=["workflow/scripts/bimix/figures.py", "workflow/scripts/bimix/comparison.py"],
        script="workflow/scripts/plot_perplexity.py",
    output:
        figure=shown(
            "results/{dataset}/figures/perplexity_{model}_{group}.svg",
            "perplexity",
            "4 Training",
            "Average log-perplexity: {model}, {group}",
        ),
    log:
        "results/{dataset}/logs/plot_perplexity/{model}_{group}.log",
    conda:
        "../../envs/analysis.yaml"
    params:
        reference=setting("compare/mixtures/0"),
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
        losses=collect("results/{{dataset}}/losses/{model}/compare.parquet", model=setting("compare/model")),
        module="workflow/scripts/bimix/comparison.py",
        script="workflow/scripts/compare_mixtures.py",
    output:
        table=shown(
            "results/{dataset}/tables/comparison.csv", "comparison", "4 Training", "Comparison of the large runs (csv)"
        ),
    log:
        "results/{dataset}/logs/compare_mixtures.log",
    conda:
        "../../envs/analysis.yaml"
    params:
        reference=setting("compare/mixtures/0"),
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
        unpack(planned(targets.targets)),
        module="workflow/scripts/bimix/summary.py",
        script="workflow/scripts/summarize_results.py",
    output:
        text="results/{dataset}/summary.txt",
        page=shown("results/{dataset}/summary.html", "summary", "1 Summary", "The result on one page"),
    log:
        "results/{dataset}/logs/summarize_results.log",
    conda:
        "../../envs/analysis.yaml"
    params:
        fitted_model=setting("optimum/model"),
        compared_model=setting("compare/model"),
        step=setting("optimum/step"),
        reference=setting("compare/mixtures/0"),
    shell:
        r"""
        python workflow/scripts/summarize_results.py \
            --dataset {wildcards.dataset:q} \
            --fitted-model {params.fitted_model:q} \
            --compared-model {params.compared_model:q} \
            --step {params.step:q} \
            --coefficients {input.coefficients:q} \
            --optimised {input.optimised:q} \
            --reference {params.reference:q} \
            --reference-mixture {input.reference:q} \
            --extrapolation {input.extrapolation:q} \
            --generalization {input.generalization:q} \
            --comparison {input.comparison:q} \
            --laws {input.laws:q} \
            --intervals {input.intervals:q} \
            --figures {input.figures:q} \
            --answers {input.answers:q} \
            --out {output.text:q} \
            --page {output.page:q} \
            2>{log:q}
        """
