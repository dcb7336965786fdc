# Downstream: what the mixture buys (paper Sec. 4; Figures 4, 7, 8).
#   runs/{model}/{run}/, task files -> downstream/{model}/{run}.parquet
#       -> tables/downstream.csv, figures/downstream*.svg
# A dataset without a block `downstream` has none of this. Weights of earlier steps are in the run's
# state/, where training puts them while it passes; a run that ended before they were requested is
# not trained again.


rule score_answers:
    """The answers of one run to every question, at several of its steps; what is done already lies
    in state/.
    """
    input:
        weights="results/{dataset}/runs/{model}/{run}/model.safetensors",
        run="results/{dataset}/runs/{model}/{run}/run.json",
        tokenizer="results/{dataset}/tokenizer.json",
        questions=planned(
            lambda dataset, model, run: there(
                dataset, inputs.task_inputs(dataset), f"{dataset.folder}/downstream/{model}/{run}.parquet"
            )
        ),
        code=script(
            "score_answers",
            "model/generation",
            "downstream/questions",
            "downstream/prompts",
            "downstream/answers",
        ),
    output:
        answers="results/{dataset}/downstream/{model}/{run}.parquet",
        report="results/{dataset}/downstream/{model}/{run}.json",
    log:
        "results/{dataset}/logs/score_answers/{model}/{run}.log",
    benchmark:
        "results/{dataset}/benchmarks/score_answers/{model}/{run}.tsv"
    wildcard_constraints:
        dataset=datasets_with("downstream"),
    conda:
        "../../envs/torch.yaml"
    threads: entry("models/{model}/launch/threads")
    resources:
        gpu=GPUS,
        nodes=entry("models/{model}/launch/nodes"),
        compile=entry("models/{model}/launch/compile"),
        cache_tokens=planned(lambda dataset: max(16384, dataset.block["sequence_length"])),
    params:
        tasks=as_json("datasets/{dataset}/downstream/tasks"),
        versions=planned(task_versions),
        steps=setting("downstream/steps"),
        new_tokens=planned(lambda dataset: min(20, dataset.block["sequence_length"] // 4)),
        rejects=setting("downstream/rejects", default=0.0),
        precision=setting("downstream/precision", default="no"),
        end_of_text=setting("tokenizer/end_of_text"),
        sequence_length=setting("sequence_length"),
        state="results/{dataset}/runs/{model}/{run}/state",
        parts="results/{dataset}/downstream/{model}/state/{run}",
    shell:
        LAUNCHER + r"""{resources.gpu} {resources.nodes} {threads} 0 \
            {log:q} {params.parts:q}/logs \
            score_answers.py \
            --cache-tokens {resources.cache_tokens} \
            --graphs {resources.compile} \
            --tasks {params.tasks:q} \
            --run {input.run:q} \
            --weights {input.weights:q} \
            --state {params.state:q} \
            --steps {params.steps} \
            --tokenizer {input.tokenizer:q} \
            --end-of-text {params.end_of_text:q} \
            --sequence-length {params.sequence_length} \
            --new-tokens {params.new_tokens} \
            --seed 0 \
            --rejects {params.rejects} \
            --precision {params.precision} \
            --parts {params.parts:q} \
            --out {output.answers:q} \
            --report {output.report:q}
        """


rule compare_answers:
    """Accuracy and bits per byte of each mixture against steps, by task and on average, with
    bootstrap intervals and the loss next to it.
    """
    input:
        answers=collect(
            "results/{{dataset}}/downstream/{model}/{run}.parquet",
            model=setting("downstream/model"),
            run=planned(lambda dataset: [run.name for run in dataset.answering_runs()]),
        ),
        losses=collect("results/{{dataset}}/losses/{model}/compare.parquet", model=setting("downstream/model")),
        code=script("compare_answers", "downstream/accuracy", "observations/averages"),
    output:
        table=table("downstream", "5 Downstream", "Answers of each mixture (csv)", caption="downstream_table"),
    log:
        "results/{dataset}/logs/compare_answers.log",
    wildcard_constraints:
        dataset=datasets_with("downstream"),
    conda:
        "../../envs/analysis.yaml"
    params:
        names=planned(lambda dataset: [run.mixture for run in dataset.answering_runs()]),
        seeds=planned(lambda dataset: [run.seed for run in dataset.answering_runs()]),
        reference=setting("compare/mixtures/0"),
        model=setting("downstream/model"),
    shell:
        RUN + r"""compare_answers.py \
            --answers {input.answers:q} \
            --names {params.names:q} \
            --losses {input.losses:q} \
            --reference {params.reference:q} \
            --resamples 1000 \
            --level 0.95 \
            --seed 0 \
            --out {output.table:q} \
            2>{log:q}
        """


rule plot_answers:
    """Accuracy and bits per byte against training steps: the average (paper Fig. 4), and each task
    (Figs. 7, 8).
    """
    input:
        table="results/{dataset}/tables/downstream.csv",
        code=script("plot_answers", "results/figures"),
    output:
        average=figure("downstream", "5 Downstream", "Average over tasks"),
        tasks=figure("downstream_tasks", "5 Downstream", "Answers by task"),
    log:
        "results/{dataset}/logs/plot_answers.log",
    wildcard_constraints:
        dataset=datasets_with("downstream"),
    conda:
        "../../envs/analysis.yaml"
    params:
        model=setting("downstream/model"),
    shell:
        RUN + r"""plot_answers.py \
            --table {input.table:q} \
            --level 0.95 \
            --average {output.average:q} \
            --tasks {output.tasks:q} \
            2>{log:q}
        """
