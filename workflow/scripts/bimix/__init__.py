"""What the scripts share, a room for each chapter. A room imports from rooms above it only.

    entropy      n-gram counts and models, estimators of entropies, document vectors
    data         documents, addresses and their streams, shards, encoders, samples
    tokens       the pass over a shard: from documents to rows of token ids, counts and a sample
    files        files of a dataset's block: raw ones, contents, tasks, pools, exports, rounds
    plan         which files and runs there are, who makes which mixture, what it costs
    mixtures     what a mixture is, its stages, draws of a swarm, pools, simple rules
    model        the transformer, its loss, optimizers, its memory, generation, export
    runs         what stays of a run: checkpoints, outputs with digests, provenance, claimed GPUs
    training     a session of runs, the loop, one update, order and rows, the command line
    reweighting  DoReMi, DoGE, the trace of their weights
    stacking     several runs of a swarm trained at once: their states joined and parted
    transfer     the parts of the law transfer: mixing factor, signed term, prior, curve, choice
    scale        that law over sizes of models, with repeated text, at the run that is asked for
    observed     losses that were observed, tables made tidy, the record that a law is
    rivals       laws of others: exponential, Olmix, MARINER, Scheffe, Gaussian process, trees
    laws         the laws bimix and transfer, and all laws behind one interface
    imports      losses and mixtures in the logs and tables of other tools
    scores       how well laws predict
    solvers      minima of functions of a mixture: convex, constrained, searched, the next best
    optimum      the best mixture of a law, bounds, intervals
    ranking      laws ranked on public runs and on any others
    exports      mixtures as the configurations of training stacks, with the weights in their units
    objectives   what a mixture is to be best at: families, the worst loss, a trust region
    judge        runs compared by the objective, noise, the mixture to take and why, worth, prices
    search       which runs to make next, by design and by rounds, and when to stop
    downstream   tasks, questions, prompts, answers, accuracies
    costs        what trainings will cost
    verification whether runs and results agree with themselves: digests, losses, a state restored
    drawing      the look of all figures
    results      comparisons, figures, pages of tables, the summary, provenance, progress of runs
    faults       one fault of a config in words, with file, line and what the schema allows
    trainers     models that a command trains: its words, its process, the losses that it leaves
    config       what a config must hold: blocks, datasets, recipes, names
    start        a call's config: its files found, merged over the workflow's own and checked
    defaults     what a dataset's block leaves out: keys that fit its text, models by a size ladder

At the top, for all: errors, addresses, names, digests, outputs, tables; and the command `bimix`.

Only `model`, `runs`, `training`, `reweighting`, `stacking/runs`, `downstream/tasks`,
`downstream/calls` and `verification/runs` import torch or Accelerate.
Files are opened in `command`, `outputs`, `tables`, `digests`, `data/sources`, `tokens/shard`,
`tokens/stream`, `imports/tables`, `files/contents`, `files/raw`, `plan/corpora`, `results/watch`,
`config/blocks`, `config/complete`, `config/corpora`, `faults/files`, `start/checks`, `start/lock`,
`defaults/record`, `runs/artefacts`, `runs/checkpoints`, `runs/devices`, `trainers/losses`,
`trainers/process`, `training/rows`, `downstream/calls`, `downstream/questions`, `entropy/table`,
`verification/counts`, `verification/results`.
"""
