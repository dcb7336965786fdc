# Downstream: what the mixture buys (paper Sec. 4; Figures 4, 7, 8), by lm_eval.
#   runs/{model}/{run}/, task files -> downstream/{model}/{run}/{step}.json -> downstream/{model}/{run}.csv
#       -> tables/downstream.csv, figures/downstream*.svg
# A dataset without a block `downstream` has none of this. Weights of earlier steps are in the run's
# state/, where training puts them while it passes; a run that ended before they were requested is
# not trained again.


rule answer_questions:
    """lm_eval's results of the tasks for one run at a step; what is done already lies in state/."""
    input:
        weights="results/{dataset}/runs/{model}/{run}/model.safetensors",
        run="results/{dataset}/runs/{model}/{run}/run.json",
        tokenizer="results/{dataset}/tokenizer.json",
        questions=planned(
            lambda dataset, model, run, step: there(
                dataset, inputs.task_inputs(dataset), f"{dataset.folder}/downstream/{model}/{run}/{step}.json"
            )
        ),
        code=script("answer_questions", "downstream/answers", "model/export"),
    output:
        results="results/{dataset}/downstream/{model}/{run}/{step}.json",
    log:
        "results/{dataset}/logs/answer_questions/{model}/{run}/{step}.log",
    benchmark:
        "results/{dataset}/benchmarks/answer_questions/{model}/{run}/{step}.tsv"
    wildcard_constraints:
        dataset=datasets_with("downstream"),
    conda:
        "../../envs/downstream.yaml"
    threads: entry("models/{model}/launch/threads")
    resources:
        gpu=planned(lambda config, model: min(config["models"][model]["launch"]["gpus"], 1)),
        batch_size=setting("downstream/batch_size", default=8),
    params:
        tasks=setting("downstream/tasks"),
        task_files=planned(lambda dataset: task_folders(dataset.block["downstream"].get("task_files"))),
        versions=planned(task_versions),
        shots=setting("downstream/shots", default="none"),
        limit=setting("downstream/limit", default="none"),
        backend=setting("downstream/backend", default="hf"),
        end_of_text=setting("tokenizer/end_of_text"),
        sequence_length=setting("sequence_length"),
        state="results/{dataset}/runs/{model}/{run}/state",
        parts="results/{dataset}/downstream/{model}/{run}/state/{step}",
    shell:
        LAUNCHER + r"""{resources.gpu} 1 {threads} 0 \
            {log:q} {params.parts:q}/logs \
            answer_questions.py \
            --tasks {params.tasks:q} \
            --task-files {params.task_files:q} \
            --run {input.run:q} \
            --weights {input.weights:q} \
            --state {params.state:q} \
            --step {wildcards.step} \
            --tokenizer {input.tokenizer:q} \
            --end-of-text {params.end_of_text:q} \
            --sequence-length {params.sequence_length} \
            --shots {params.shots} \
            --limit {params.limit} \
            --batch-size {resources.batch_size} \
            --backend {params.backend} \
            --parts {params.parts:q} \
            --out {output.results:q}
        """


rule tabulate_answers:
    """lm_eval's results of one run as a tidy table."""
    input:
        results=collect(
            "results/{{dataset}}/downstream/{{model}}/{{run}}/{step}.json", step=setting("downstream/steps")
        ),
        code=script("tabulate_answers", "downstream/accuracy", "observations/benchmarks"),
    output:
        table="results/{dataset}/downstream/{model}/{run}.csv",
    log:
        "results/{dataset}/logs/tabulate_answers/{model}/{run}.log",
    wildcard_constraints:
        dataset=datasets_with("downstream"),
    conda:
        "../../envs/analysis.yaml"
    params:
        steps=setting("downstream/steps"),
    shell:
        RUN + r"""tabulate_answers.py \
            --results {input.results:q} \
            --steps {params.steps} \
            --out {output.table:q} \
            2>{log:q}
        """


rule plot_answers:
    """Accuracy and bits per byte of each mixture against training steps: the average (paper Fig. 4),
    and each task (Figs. 7, 8).
    """
    input:
        answers=collect(
            "results/{{dataset}}/downstream/{model}/{run}.csv",
            model=setting("downstream/model"),
            run=planned(lambda dataset: [run.name for run in dataset.answering_runs()]),
        ),
        code=script("plot_answers", "downstream/accuracy", "results/figures"),
    output:
        table=table("downstream", "5 Downstream", "Answers of each mixture (csv)", caption="downstream_table"),
        average=figure("downstream", "5 Downstream", "Average over tasks"),
        tasks=figure("downstream_tasks", "5 Downstream", "Answers by task"),
    log:
        "results/{dataset}/logs/plot_answers.log",
    wildcard_constraints:
        dataset=datasets_with("downstream"),
    conda:
        "../../envs/analysis.yaml"
    params:
        names=planned(lambda dataset: [run.mixture for run in dataset.answering_runs()]),
        model=setting("downstream/model"),
    shell:
        RUN + r"""plot_answers.py \
            --answers {input.answers:q} \
            --names {params.names:q} \
            --table {output.table:q} \
            --average {output.average:q} \
            --tasks {output.tasks:q} \
            2>{log:q}
        """
