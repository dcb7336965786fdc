# Results: the one page that a person reads. What else a dataset's run makes is listed by `targets`
# in bimix/plan/targets.py.
#   all targets -> summary.txt, summary_details.txt, summary.html, verdict.json, explore.html
#   verdict.json -> figures/recommended.svg
#   a table that the report shows -> its page tables/{table}.html
#   all that there is -> verify.txt, made on request


rule summarize_results:
    """The result on one page of text; what it reads and lists is everything that a dataset's run
    makes.
    """
    input:
        unpack(planned(summarised)),
        code=script(
            "summarize_results",
            *(f"results/{name}" for name in ("summary", "sections", "headline", "layout", "explore")),
            *JUDGE,
            "judge/evidence",
            "judge/facts",
            "judge/remarks",
            "judge/verdict",
            "search/weighing",
            "search/posterior",
        ),
    output:
        text="results/{dataset}/summary.txt",
        details="results/{dataset}/summary_details.txt",
        page=shown("results/{dataset}/summary.html", "summary", "1 Summary", "The result on one page"),
        verdict="results/{dataset}/verdict.json",
        explore=shown("results/{dataset}/explore.html", "explore", "1 Summary", "Play with the mixture"),
    log:
        "results/{dataset}/logs/summarize_results.log",
    conda:
        "../../envs/analysis.yaml"
    params:
        fitted_model=setting("optimum/model"),
        asked_model=planned(inputs.asked_model),
        sizes=planned(inputs.larger_runs),
        compared_model=setting("compare/model"),
        step=setting("optimum/step"),
        weights=bound("weights"),
        objective=bound("objective"),
        lower=bound("lower"),
        upper=bound("upper"),
        limits=SOUGHT["limits"],
        max_epochs=setting("optimum/max_epochs", default="none"),
        run_tokens=planned(inputs.compared_tokens),
        ranks=as_json(planned(inputs.ranks)),
        reference=setting("compare/mixtures/0"),
        optimum_tokens=planned(lambda dataset: inputs.epoch_run_tokens(dataset, dataset.optimised_laws[0])),
        hand=RIVALS,
    shell:
        RUN + r"""summarize_results.py \
            --dataset {wildcards.dataset:q} \
            --fitted-model {params.fitted_model:q} \
            --asked-model {params.asked_model:q} \
            --sizes {params.sizes:q} \
            --compared-model {params.compared_model:q} \
            --step {params.step:q} \
            --weights {params.weights:q} \
            --objective {params.objective:q} \
            --coefficients {input.coefficients:q} \
            --optimised {input.optimised:q} \
            --compared {input.compared:q} \
            --proxies {input.proxies:q} \
            --mixtures {input.mixtures:q} \
            --ranks {params.ranks:q} \
            --tokens {input.tokens:q} \
            --run-tokens {params.run_tokens} \
            --lower {params.lower:q} \
            --upper {params.upper:q} \
            --max-epochs {params.max_epochs} \
            --reference {params.reference:q} \
            --reference-mixture {input.reference:q} \
            --laws {input.laws:q} \
            --scores {input.scores:q} \
            --intervals {input.intervals:q} \
            --tables {input.tables:q} \
            --figures {input.figures:q} \
            --answers {input.answers:q} \
            --fitted {input.fitted:q} \
            --objective-reference {input.objective_reference:q} \
            --optimum-tokens {params.optimum_tokens} \
            --prior {input.prior:q} \
            --hand {params.hand} \
            --rest {input.rest:q} \
            --verdict {output.verdict:q} \
            --search {input.search:q} \
            --entropy {input.entropy:q} \
            --validation {input.validation:q} \
            --out {output.text:q} \
            --details {output.details:q} \
            --page {output.page:q} \
            --explore {output.explore:q} \
            2>{log:q}
        """


rule plot_recommended:
    """The mixture to take next to the reference, and the losses that it changes."""
    input:
        verdict="results/{dataset}/verdict.json",
        code=script("plot_recommended", "results/figures", "results/headline"),
    output:
        figure=figure("recommended", "1 Summary", "The mixture to take"),
    log:
        "results/{dataset}/logs/plot_recommended.log",
    conda:
        "../../envs/analysis.yaml"
    shell:
        RUN + r"plot_recommended.py --verdict {input.verdict:q} --out {output.figure:q} 2>{log:q}"


for stem, (caption, category, title) in TABLES.items():

    rule:
        name:
            f"show_{stem}"
        input:
            table=f"results/{{dataset}}/tables/{stem}.csv",
            code=script("show_table", "results/pages"),
        output:
            page=shown(f"results/{{dataset}}/tables/{stem}.html", caption, category, title),
        log:
            f"results/{{dataset}}/logs/show_{stem}.log",
        conda:
            "../../envs/analysis.yaml"
        params:
            title=title,
            reference=setting("compare/mixtures/0"),  # for the captions
            model=setting("compare/model"),
        shell:
            RUN + r"show_table.py --table {input.table:q} --title {params.title:q} --out {output.page:q} 2>{log:q}"


rule verify_results:
    """Whether the results are as they were written and agree with each other; made when it is asked
    for, fails on a fault and where a file is gone.
    """
    input:
        summary="results/{dataset}/summary.txt",
        code=script("verify_results", "results/verify", "results/findings"),
    output:
        text="results/{dataset}/verify.txt",
    log:
        "results/{dataset}/logs/verify_results.log",
    conda:
        "../../envs/torch.yaml"
    shell:
        RUN + r"verify_results.py results/{wildcards.dataset:q} --strict --out {output.text:q} 2>{log:q}"
