# Trainers: models that a command of the user's trains, under the launcher of all trainings.
#   mixtures/{mixture}.json, files of each domain -> runs/{model}/{run}/ without weights
# As of pretrain_model, scripts are no inputs.


rule run_trainer:
    """Train one model on one mixture by its command, and read the losses that it leaves."""
    input:
        mixture=rules.pretrain_model.input.mixture,
        data=planned(inputs.trainer_data),
        tokens=planned(
            lambda dataset, model: inputs.export_tokens(dataset) if "format" in config["models"][model] else []
        ),
        text=planned(inputs.trainer_text),
    output:
        losses="results/{dataset}/runs/{model}/{run}/losses.parquet",
        report="results/{dataset}/runs/{model}/{run}/run.json",
    log:
        "results/{dataset}/logs/run_trainer/{model}/{run}.log",
    benchmark:
        "results/{dataset}/benchmarks/run_trainer/{model}/{run}.tsv"
    wildcard_constraints:
        model=one_of(models_with("command")),
    conda:
        "../../envs/torch.yaml"
    threads: entry("models/{model}/launch/threads")
    resources:
        runtime=0,
        gpu=GPUS,
        nodes=entry("models/{model}/launch/nodes"),
    params:
        trainer=as_json(planned(inputs.trainer)),
        recipe=as_json(planned(lambda dataset, model, run: dataset.recipe(model, run))),
        domains=planned(lambda dataset: [*dataset.block["domains"], *dataset.only_measured]),
        sequence_length=setting("sequence_length"),
        state="results/{dataset}/runs/{model}/{run}/state",
    shell:
        LAUNCHER + r"""--once {resources.gpu} {resources.nodes} {threads} \
            {resources.runtime} {log:q} {params.state:q}/logs run_trainer.py \
            --mixture {input.mixture:q} \
            --data {input.data:q} \
            --tokens {input.tokens:q} \
            --text {input.text:q} \
            --trainer {params.trainer:q} \
            --recipe {params.recipe:q} \
            --domains {params.domains:q} \
            --sequence-length {params.sequence_length} \
            --gpus {resources.gpu} \
            --nodes {resources.nodes} \
            --threads {threads} \
            --state {params.state:q} \
            --losses {output.losses:q} \
            --report {output.report:q}
        """
