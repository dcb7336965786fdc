# Training: one run for each mixture of a group.
#   tokens/*.parquet, mixtures/{mixture}.json -> runs/{model}/{run}/
#       -> losses/{model}/{group}.parquet
#   losses/{model}/{group}.parquet -> tables/comparison.csv, figures/perplexity_{model}_{group}.svg
# The optimised mixture is trained on like any other. Scripts are no inputs of a run: a week of
# GPUs is never thrown away because a comment changed. What a run must be repeated for is in
# its fingerprint: it names the folder in state/ that holds the checkpoints and, at the end,
# the outputs, so that another configuration begins next to it and an older one comes back. The
# first mixture under `compare` is the reference that the others are measured against;
# `compare` is a group like any other.


rule pretrain_model:
    """Pretrain one model on one mixture.

    Checkpoints live in state/, which Snakemake does not know and never deletes.
    """
    input:
        **TOKENS,
        mixture=lambda wildcards: f"results/{wildcards.dataset}/mixtures/{wildcards.run.split('@')[0]}.json",
    output:
        losses="results/{dataset}/runs/{model}/{run}/losses.parquet",
        weights="results/{dataset}/runs/{model}/{run}/model.safetensors",
        report="results/{dataset}/runs/{model}/{run}/run.json",
    log:
        "results/{dataset}/logs/pretrain_model/{model}/{run}.log",
    benchmark:
        "results/{dataset}/benchmarks/pretrain_model/{model}/{run}.tsv"
    wildcard_constraints:
        model=one_of(models_with("shape")),
    conda:
        "../../envs/torch.yaml"
    threads: entry("models/{model}/launch/threads")
    resources:
        **LAUNCH,
        gpu=GPUS,
        nodes=entry("models/{model}/launch/nodes"),
        keep=planned(inputs.kept_steps),
    params:
        shape=as_json("models/{model}/shape"),
        recipe=as_json(planned(lambda dataset, model, run: dataset.recipe(model, run))),
        state="results/{dataset}/runs/{model}/{run}/state",
    shell:
        LAUNCHER
        + r"""{resources.gpu} {resources.nodes} {threads} {resources.runtime} \
            {log:q} {params.state:q}/logs pretrain_model.py """
        + TRAINING_FLAGS
        + r"""--log-with {resources.log_with} \
            --mixture {input.mixture:q} \
            --keep {resources.keep} \
            --losses {output.losses:q} \
            --weights {output.weights:q} \
            --report {output.report:q}
        """


rule gather_losses:
    """The losses of a group's runs as one tidy table: mixture, seed, step, tokens, domain, loss."""
    input:
        losses=planned(inputs.losses),
    output:
        table="results/{dataset}/losses/{model}/{group}.parquet",
    log:
        "results/{dataset}/logs/gather_losses/{model}/{group}.log",
    wildcard_constraints:
        dataset=datasets_with("corpus"),
        model=one_of(config["models"]),
    conda:
        "../../envs/analysis.yaml"
    params:
        names=planned(lambda dataset, model, group: [run.mixture for run in dataset.runs(group, model)]),
        seeds=planned(lambda dataset, model, group: [run.seed for run in dataset.runs(group, model)]),
    shell:
        RUN + r"""gather_losses.py \
            --losses {input.losses:q} \
            --names {params.names:q} \
            --seeds {params.seeds:q} \
            --out {output.table:q} \
            2>{log:q}
        """


rule export_model:
    """A trained model as a folder for transformers, vLLM and lm-evaluation-harness.

    Made when it is requested.
    """
    input:
        weights="results/{dataset}/runs/{model}/{mixture}/model.safetensors",
        tokenizer="results/{dataset}/tokenizer.json",
        code=script("export_model", "model/export"),
    output:
        folder=directory("results/{dataset}/runs/{model}/{mixture}/export"),
    log:
        "results/{dataset}/logs/export_model/{model}/{mixture}.log",
    conda:
        "../../envs/torch.yaml"
    params:
        end_of_text=setting("tokenizer/end_of_text"),
        sequence_length=setting("sequence_length"),
    shell:
        RUN + r"""export_model.py \
            --weights {input.weights:q} \
            --tokenizer {input.tokenizer:q} \
            --end-of-text {params.end_of_text:q} \
            --sequence-length {params.sequence_length} \
            --out {output.folder:q} \
            2>{log:q}
        """


rule count_bytes:
    """Bytes of the text whose losses a model's runs measure: nats per token to bits per byte."""
    input:
        index="results/{dataset}/tokens/validation.parquet",
        tokenizer="results/{dataset}/tokenizer.json",
        code=script("count_bytes", "corpus/encoders"),
    output:
        table="results/{dataset}/tokens/bytes/{model}.csv",
    log:
        "results/{dataset}/logs/count_bytes/{model}.log",
    conda:
        "../../envs/analysis.yaml"
    params:
        end_of_text=setting("tokenizer/end_of_text"),
        rows=setting("training/{model}/validation_rows"),
    shell:
        RUN + r"""count_bytes.py \
            --index {input.index:q} \
            --tokenizer {input.tokenizer:q} \
            --end-of-text {params.end_of_text:q} \
            --rows {params.rows} \
            --out {output.table:q} \
            2>{log:q}
        """


rule compare_mixtures:
    """How the large runs end, and the steps that each needs to get where the reference ends."""
    input:
        losses=collect("results/{{dataset}}/losses/{model}/compare.parquet", model=setting("compare/model")),
        bytes=planned(inputs.byte_counts),
        searches=planned(budget.report_files),
        code=script("compare_mixtures", *JUDGE),
    output:
        table=table("comparison", "4 Training", "Comparison of the large runs (csv)"),
    log:
        "results/{dataset}/logs/compare_mixtures.log",
    conda:
        "../../envs/analysis.yaml"
    params:
        reference=setting("compare/mixtures/0"),
        weights=bound("weights"),
        objective=bound("objective"),
        searches=as_json(planned(budget.search_reports)),
    shell:
        RUN + r"""compare_mixtures.py \
            --losses {input.losses:q} \
            --bytes {input.bytes:q} \
            --reference {params.reference:q} \
            --weights {params.weights:q} \
            --objective {params.objective:q} \
            --searches {params.searches:q} \
            --out {output.table:q} \
            2>{log:q}
        """


rule plot_perplexity:
    """Average log-perplexity against training steps (paper Fig. 5).

    Beside a fitted group stand the held-out ones.
    """
    input:
        losses="results/{dataset}/losses/{model}/{group}.parquet",
        held_out=branch(
            lambda wildcards: wildcards.group != "compare",
            then=collect("results/{{dataset}}/losses/{{model}}/{name}.parquet", name=setting("held_out")),
            otherwise=[],
        ),
        code=script("plot_perplexity", "results/figures", "observations/averages"),
    output:
        figure=figure("perplexity_{model}_{group}", "4 Training", "Average loss against steps: {model}, {group}"),
    log:
        "results/{dataset}/logs/plot_perplexity/{model}_{group}.log",
    conda:
        "../../envs/analysis.yaml"
    params:
        reference=setting("compare/mixtures/0"),
        weights=bound("weights"),
    shell:
        RUN + r"""plot_perplexity.py \
            --losses {input.losses:q} {input.held_out:q} \
            --reference {params.reference:q} \
            --weights {params.weights:q} \
            --out {output.figure:q} \
            2>{log:q}
        """
