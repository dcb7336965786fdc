"""A run of OLMo-core as the command of a model, with `format: olmo-core` (docs/trainers.md):

torchrun --nproc-per-node {gpus} train_olmo.py {mixture} {folder} {steps} {evaluate_every}
    {batch_rows} {sequence_length} {seed} web=/text/web.npy code=/text/code.npy

The last words are each domain's file of validation tokens. OLMO_TRAIN names a script such as
OLMo-core's src/examples/llm/train.py, OLMO_FLAGS what it is to be called with besides.
"""

import importlib
import json
import os
import runpy
import shlex
import sys

import torch
from olmo_core.data import NumpyFSLDatasetConfig, NumpyPaddedFSLDatasetConfig
from olmo_core.distributed.utils import get_rank
from olmo_core.train import Duration, prepare_training_environment, teardown_training_environment
from olmo_core.train.callbacks import Callback, LMEvaluatorCallbackConfig


class Lines(Callback):
    def log_metrics(self, step, metrics):
        before, after = "eval/lm/", "/CE loss"
        losses = {name: loss for name, loss in metrics.items() if name.startswith(before) and name.endswith(after)}
        if get_rank() == 0 and losses:
            with open(f"{self.trainer.save_folder}/losses.jsonl", "a") as file:
                for name, loss in losses.items():
                    domain = name.removeprefix(before).removesuffix(after)
                    file.write(json.dumps({"step": step, "domain": domain, "loss": loss}) + "\n")


def main():
    mixture, folder, *numbers = sys.argv[1:8]
    steps, every, rows, length, seed = map(int, numbers)
    files = dict(word.split("=", 1) for word in sys.argv[8:])
    if every < 2:
        raise SystemExit("train_olmo.py: error: OLMo-core measures nothing after the first update; evaluate later.")
    own = ["--sequence-length", str(length), "--save-folder", folder, "--work-dir", f"{folder}/work"]
    sys.argv = ["train.py", "run", *own, *shlex.split(os.environ.get("OLMO_FLAGS", ""))]
    path, _, name = os.environ["OLMO_TRAIN"].removesuffix(".py").rpartition("/")
    sys.path.insert(0, path)
    script = importlib.import_module(name)  # OLMo-core finds the classes of a config by their module
    config = script.build_config(*script.parser_args())
    text = {"sequence_length": length, "tokenizer": config.dataset.tokenizer, "work_dir": f"{folder}/work"}
    source = runpy.run_path(mixture)["mixture"](global_batch_size=rows * length, seed=seed)
    config.dataset = NumpyFSLDatasetConfig(source_mixture_config=source, **text)
    config.data_loader.global_batch_size, config.data_loader.seed, config.init_seed = rows * length, seed, seed
    config.trainer.max_duration = Duration.steps(steps)
    held_out = NumpyPaddedFSLDatasetConfig(
        paths=list(files.values()), metadata=[{"label": domain} for domain in files], **text
    )
    config.trainer.callbacks.pop("downstream_evaluator", None)  # it reads its questions from the network
    config.trainer.callbacks["lm_evaluator"] = LMEvaluatorCallbackConfig(
        eval_dataset=held_out, eval_interval=every, fixed_steps=[steps]
    )
    config.trainer.callbacks["lines"] = Lines()
    prepare_training_environment(backend="cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo")
    script.train(config)
    teardown_training_environment()


if __name__ == "__main__":
    main()
