"""What the scripts share, a room for each chapter. A room imports from rooms above it only.

    corpus       documents, streams, shards, the pass over a shard, n-grams, entropies
    mixtures     what a mixture is, draws of a swarm, pools, rules by hand
    observations losses that were observed, tidy tables, logs of other tools, the prior from text
    transfer     the parts of the law transfer: mixing factor, curve, choice, sizes, repeated text
    laws         one table of laws; fitted laws: bimix, transfer and those of others
    plan         which files and runs there are, who makes which mixture, targets
    model        the transformer, its loss, optimizers, its memory, generation, export
    training     a session of runs, the loop, order, checkpoints, GPUs, users' commands
    reweighting  DoReMi, DoGE, the trace of their weights
    optimum      the best mixture of a law by an objective, its solvers, bounds, intervals
    judge        errors of laws, noise, runs compared, the mixture to take, prices
    search       which runs to make next, by design and by rounds, and when to stop
    exports      mixtures as the configurations of training stacks, with the weights in their units
    downstream   tasks, questions, prompts, answers, accuracies
    results      the summary, figures, pages of tables and to play with, the terminal, verification
    settings     a config: its models and defaults, what is wrong with it in words, by line

At the top, for all: errors, names, digests, outputs, tables; and the command `bimix`.

Only `model`, `training`, `reweighting` and `downstream/answers` import torch or
Accelerate.
Files are opened in `command`, `corpus/encoders`, `corpus/estimators`, `corpus/harvest`,
`corpus/samples`, `corpus/sources`, `corpus/stream`, `digests`, `downstream/answers`,
`downstream/questions`, `observations/imports`, `outputs`, `plan/shards`,
`results/provenance`, `results/watch`, `settings/complete`, `settings/files`,
`settings/ladder`, `settings/lock`, `settings/text`, `tables`,
`training/artefacts`, `training/checkpoints`, `training/command`, `training/command_run`,
`training/devices`, `training/rows`.
"""
