# Chapter 7: what each method costs and what its mixture is worth.
#   losses/{model}/methods.parquet, reports of the searches -> tables/methods.csv, figures/methods.svg
# Every mixture is found, trained on and measured by the chapters before; here they are put beside each other. Nothing of this
# is made unless it is asked for.


rule price_methods:
    """What each method spent before the large run, and how the large run on its mixture ended."""
    input:
        losses=collect(
            "results/{{dataset}}/losses/{model}/methods.parquet",
            model=lookup("datasets/{dataset}/compare/model", within=config),
        ),
        large=collect(
            "results/{{dataset}}/runs/{model}/{mixture}/run.json",
            model=lookup("datasets/{dataset}/compare/model", within=config),
            mixture=lookup("datasets/{dataset}/methods/0", within=config),
        ),
        searches=planned(costs.report_files),
        module="workflow/scripts/bimix/prices.py",
        script="workflow/scripts/price_methods.py",
    output:
        table=report(
            "results/{dataset}/tables/methods.csv",
            caption="../report/methods.rst",
            category="6 Methods",
            subcategory="{dataset}",
            labels={"shows": "What each method costs and gains (csv)"},
        ),
    log:
        "results/{dataset}/logs/price_methods.log",
    benchmark:
        "results/{dataset}/benchmarks/price_methods.tsv"
    wildcard_constraints:
        dataset=datasets_with("methods"),
    conda:
        "../../envs/analysis.yaml"
    params:
        reference=lookup("datasets/{dataset}/methods/0", within=config),
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
        figure=report(
            "results/{dataset}/figures/methods.svg",
            caption="../report/methods.rst",
            category="6 Methods",
            subcategory="{dataset}",
            labels={"shows": "Worth against cost of each method"},
        ),
    log:
        "results/{dataset}/logs/plot_methods.log",
    benchmark:
        "results/{dataset}/benchmarks/plot_methods.tsv"
    conda:
        "../../envs/analysis.yaml"
    shell:
        r"""
        python workflow/scripts/plot_methods.py \
            --methods {input.methods:q} \
            --out {output.figure:q} \
            2>{log:q}
        """
