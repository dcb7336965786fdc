# Search: mixtures that are run one after the other, each proposed by all runs before it.
#   losses/{model}/search_{n}.parquet, mixtures/groups/search_{n}.parquet, cross_entropy.csv, prices.csv
#       -> search/{model}/{n + 1}/next.csv -> mixtures/round{n + 1}.json, trained on like any other
#   losses/{model}/search.parquet, search/{model}/{n}/report.json
#       -> search/{model}/found.json -> mixtures/found.json; rounds.csv, answer.txt
#       -> figures/rounds.svg
# Rounds are planned at once. A round after the end is the one before again: its run is there. As on
# the way to any training, scripts are no inputs of a round.


rule propose_round:
    """The mixtures of the next round, by a law that all runs before it correct."""
    input:
        losses=planned(lambda dataset, model, round: f"{dataset.folder}/losses/{model}/{dataset.before(round)}.parquet"),
        mixtures=planned(lambda dataset, round: dataset.mixture_table(dataset.before(round))),
        prior=planned(inputs.prior),
        tokens=planned(inputs.token_table),
        reference=when("optimum/objective/reference", "results/{dataset}/mixtures/{entry}.json"),
        asked=planned(lambda dataset, model: inputs.asked_size(dataset, model, dataset.block["search"]["law"])),
        reports=planned(lambda dataset, model, round: inputs.round_reports(dataset, model, range(1, int(round)))),
        prices=planned(budget.search_prices),
    output:
        table="results/{dataset}/search/{model}/{round}/next.csv",
        report="results/{dataset}/search/{model}/{round}/report.json",
    log:
        "results/{dataset}/logs/propose_round/{model}/{round}.log",
    wildcard_constraints:
        dataset=datasets_with("search"),
    conda:
        "../../envs/analysis.yaml"
    params:
        **SEARCHED,
        of=setting("search/of"),
        budget=planned(budget.search_flags),
    shell:
        RUN + r"propose_round.py " + (SEARCH_FLAGS) + r"""--count {params.of} \
            --models {input.prices:q} \
            {params.budget:q} \
            --round {wildcards.round} \
            --reports {input.reports:q} \
            --out {output.table:q} \
            --report {output.report:q} \
            >{log:q} 2>&1
        """


use rule mix_given as mix_round with:
    # a mixture that a round proposed, trained on like any other
    input:
        mixture=planned(inputs.proposed_in),
    log:
        "results/{dataset}/logs/mix_round/{own}.log",
    wildcard_constraints:
        dataset=datasets_with("search"),
        own=made_by("mix_round"),


rule judge_search:
    """The answer of a search: the best measured mixture, next to the best rule by hand."""
    input:
        losses="results/{dataset}/losses/{model}/search.parquet",
        mixtures="results/{dataset}/mixtures/groups/search.parquet",
        prior=planned(inputs.prior),
        tokens=planned(inputs.token_table),
        reference=when("optimum/objective/reference", "results/{dataset}/mixtures/{entry}.json"),
        asked=planned(lambda dataset, model: inputs.asked_size(dataset, model, dataset.block["search"]["law"])),
        reports=planned(lambda dataset, model: inputs.round_reports(dataset, model, rounds(dataset.block))),
        rest=planned(inputs.hand_reference),
    output:
        mixture="results/{dataset}/search/{model}/found.json",
        rounds="results/{dataset}/search/{model}/rounds.csv",
        answer="results/{dataset}/search/{model}/answer.txt",
    log:
        "results/{dataset}/logs/judge_search/{model}.log",
    wildcard_constraints:
        dataset=datasets_with("search"),
    conda:
        "../../envs/analysis.yaml"
    params:
        **SEARCHED,
        epoch_tokens=planned(inputs.compared_tokens),
        hand=RIVALS,
    shell:
        RUN + r"judge_search.py " + (SEARCH_FLAGS) + r"""--reports {input.reports:q} \
            --hand {params.hand} \
            --rest {input.rest:q} \
            --epoch-tokens {params.epoch_tokens:q} \
            --out {output.mixture:q} \
            --rounds {output.rounds:q} \
            --answer {output.answer:q} \
            >{log:q} 2>&1
        """


use rule mix_given as mix_found with:
    # the answer of a search
    input:
        mixture=collect("results/{{dataset}}/search/{model}/found.json", model=setting("optimum/model")),
    log:
        "results/{dataset}/logs/mix_found/{own}.log",
    wildcard_constraints:
        dataset=datasets_with("search"),
        own=made_by("mix_found"),


rule plot_rounds:
    """Predictions and measurements of each round, and the expected gain left."""
    input:
        rounds=collect("results/{{dataset}}/search/{model}/rounds.csv", model=setting("optimum/model")),
        code=script("plot_rounds", "results/figures"),
    output:
        figure=figure("rounds", "3 Law", "Search by rounds"),
    log:
        "results/{dataset}/logs/plot_rounds.log",
    wildcard_constraints:
        dataset=datasets_with("search"),
    conda:
        "../../envs/analysis.yaml"
    shell:
        RUN + r"plot_rounds.py --rounds {input.rounds:q} --out {output.figure:q} 2>{log:q}"
