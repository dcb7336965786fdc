"""What the scripts share, a room for each chapter. A room imports from rooms above it only.

    corpus       documents, streams, shards, the pass over a shard, n-grams, entropies
    mixtures     what a mixture is, the grammar of their names, draws of a swarm, pools, rules by hand
    observations observed losses, tidy tables, logs of other tools, the prior from text
    transfer     the parts of the law transfer: mixing factor, curve, choice, sizes, repeated text
    laws         one table of laws; fitted laws: bimix, transfer and those of others
    model        the transformer, its loss, its memory, export
    training     a session of runs, the loop, order, checkpoints, GPUs, users' commands
    reweighting  DoReMi, DoGE, the path of their weights
    plan         which files and runs there are, who makes which mixture, targets
    optimum      the best mixture of a law by an objective, its solvers, bounds, intervals
    judge        errors of laws, noise, runs compared, the mixture to take, prices
    search       the first runs, the next ones by rounds, and when to stop
    exports      mixtures as configurations of training stacks, with weights in their units
    downstream   answers to lm_eval's tasks, accuracies as a table
    results      the summary, figures, pages with tables and sliders, the terminal, verification
    settings     a config: its blocks, defaults, checks, and error messages with lines

At the top, for all: blocks of the config, errors, names, digests, outputs, tables, what was dropped; and the command `bimix`.

Only `model`, `training` and `reweighting` import torch or Accelerate.
Files are opened in `command`, `corpus/encoders`, `corpus/estimators`, `corpus/files`, `corpus/harvest`,
`corpus/samples`, `corpus/sources`, `corpus/stream`, `corpus/tasks`, `digests`, `laws/table`,
`observations/imports`, `outputs`, `plan/shards`,
`results/watch`, `settings/files`,
`settings/ladder`, `settings/scope`, `tables`,
`training/artefacts`, `training/checkpoints`, `training/command`,
`training/devices`, `training/rows`.
"""
