# Exports: a mixture as the configuration of another training stack, made on request.
#   shards.jsonl, tokens/*.parquet -> export/{files}.json, or a file of the user's
#   mixtures/{mixture}.json -> export/{format}/{mixture}.{ending}


rule describe_data:
    """The dataset's own files and tokens by domain: its raw text, or its rows of tokens."""
    input:
        index=collect("results/{{dataset}}/tokens/{split}.parquet", split=["train", "validation"]),
        code=script("describe_data", "exports/data"),
    output:
        data="results/{dataset}/export/{files}.json",
    log:
        "results/{dataset}/logs/describe_data/{files}.log",
    wildcard_constraints:
        dataset=datasets_with("corpus"),
        files="raw|rows",
    conda:
        "../../envs/analysis.yaml"
    params:
        names=planned(lambda shards: digest(shards.by_name)),
    shell:
        RUN + r"""describe_data.py \
            --files {wildcards.files} \
            --shards results/{wildcards.dataset}/shards.jsonl \
            --index {input.index:q} \
            --out {output.data:q} \
            2>{log:q}
        """


rule export_mixture:
    """A mixture for another training stack, with its shares and epochs in the log."""
    input:
        mixture="results/{dataset}/mixtures/{mixture}.json",
        data=planned(inputs.export_data),
        tokens=planned(inputs.export_tokens),
        code=script("export_mixture", "exports/data", "exports/weights", "exports/write"),
    output:
        export="results/{dataset}/export/{format}/{mixture}.{ending}",
    log:
        "results/{dataset}/logs/export_mixture/{format}/{mixture}.{ending}.log",
    conda:
        "../../envs/analysis.yaml"
    params:
        version=planned(lambda dataset, format: file_version(dataset, inputs.export_data(dataset, format))),
        brought=brought(setting("optimum/group")),
        run_tokens=planned(lambda dataset, mixture: inputs.export_run(dataset, "run_tokens", mixture)),
        run_steps=planned(lambda dataset, mixture: inputs.export_run(dataset, "run_steps", mixture)),
    shell:
        RUN + r"""export_mixture.py \
            --mixture {input.mixture:q} \
            --data {input.data:q} \
            --tokens {input.tokens:q} \
            --run-tokens {params.run_tokens} \
            --run-steps {params.run_steps} \
            --format {wildcards.format:q} \
            --out {output.export:q} \
            >{log:q} 2>&1
        """
