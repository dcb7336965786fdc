# Chapter 7: what each method costs and what its mixture is worth.
#   losses/{model}/methods.parquet, reports of the searches -> tables/methods.csv, figures/methods.svg
# Every mixture is found, trained on and measured by the chapters before; here they are put beside each other. Nothing of this
# is made unless it is asked for.


rule price_methods:
    """What each method spent before the large run, and how the large run on its mixture ended."""
    input:
        losses=collect("results/{{dataset}}/losses/{model}/methods.parquet", model=setting("compare/model")),
        large=collect(
            "results/{{dataset}}/runs/{model}/{mixture}/run.json",
            model=setting("compare/model"),
            mixture=setting("methods/0"),
        ),
        searches=planned(costs.report_files),
        module="workflow/scripts/bimix/prices.py",
        script="workflow/scripts/price_methods.py",
    output:
        table=shown(
            "results/{dataset}/tables/methods.csv", "methods", "6 Methods", "What each method costs and gains (csv)"
        ),
    log:
        "results/{dataset}/logs/price_methods.log",
    wildcard_constraints:
        dataset=datasets_with("methods"),
    conda:
        "../../envs/analysis.yaml"
    params:
        reference=setting("methods/0"),
        searches=as_json(planned(costs.search_reports)),
    shell:
        r"""
        python workflow/scripts/price_methods.py \
            --losses {input.losses:q} \
            --reference {params.reference:q} \
            --large {input.large:q} \
            --searches {params.searches:q} \
            --out {output.table:q} \
            2>{log:q}
        """


rule plot_methods:
    """What each method's mixture is worth against what it cost to find."""
    input:
        methods="results/{dataset}/tables/methods.csv",
        module="workflow/scripts/bimix/figures.py",
        script="workflow/scripts/plot_methods.py",
    output:
        figure=shown(
            "results/{dataset}/figures/methods.svg", "methods", "6 Methods", "Worth against cost of each method"
        ),
    log:
        "results/{dataset}/logs/plot_methods.log",
    conda:
        "../../envs/analysis.yaml"
    shell:
        r"""
        python workflow/scripts/plot_methods.py \
            --methods {input.methods:q} \
            --out {output.figure:q} \
            2>{log:q}
        """
