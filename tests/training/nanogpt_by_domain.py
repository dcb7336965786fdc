"""nanoGPT's train.py on a mixture, with a loss of each domain at each evaluation.

    nanogpt_by_domain.py --nanogpt CHECKOUT --mixture MIXTURE --text FOLDER --steps N --every N
        --seed N --out FOLDER [-- FLAGS OF TRAIN.PY]

train.py knows one training file and one validation file. So the mixture is drawn into one file.
Where it is to be measured it is called once more for each domain, with a copy of its checkpoint and
that domain's text as validation. What it prints then is printed behind the domain's name.
"""

import argparse
import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np

ROW = 64
HELD_OUT = 8  # rows of each domain

parser = argparse.ArgumentParser(description=__doc__)
kinds = {"nanogpt": Path, "mixture": Path, "text": Path, "steps": int, "every": int, "seed": int, "out": Path}
for name, kind in kinds.items():
    parser.add_argument(f"--{name}", type=kind, required=True)
parser.add_argument("flags", nargs="*")
options = parser.parse_args()


def call(dataset: Path, out: Path, last: int, every: int, **more: object) -> list[str]:
    """train.py up to an update: the lines that it prints."""
    flags = {"dataset": dataset, "out_dir": out, "max_iters": last, "eval_interval": every} | more
    given = [*options.flags, *(f"--{name}={value}" for name, value in flags.items())]
    done = subprocess.run(
        [sys.executable, "train.py", *given], cwd=options.nanogpt, stdout=subprocess.PIPE, text=True, check=True
    )
    return done.stdout.splitlines()


def write(path: Path, rows: np.ndarray) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    rows.astype(np.uint16).tofile(path)


shares, rows = json.loads(options.mixture.read_text()), {}
for domain in shares:
    text = "\n".join(json.loads(line)["text"] for line in (options.text / f"{domain}.jsonl").read_text().splitlines())
    ids = np.frombuffer(text.encode(), dtype=np.uint8)
    rows[domain] = ids[: len(ids) // ROW * ROW].reshape(-1, ROW)
    for split in ("train", "val"):
        write(options.out / f"data/{domain}/{split}.bin", rows[domain][:HELD_OUT])
draw = np.random.default_rng(options.seed)
drawn = [
    rows[name][draw.integers(HELD_OUT, len(rows[name]))] for name in draw.choice([*shares], 512, p=[*shares.values()])
]
mixed, kept = options.out / "data/mixed", options.out / "kept"
write(mixed / "train.bin", np.stack(drawn))
write(mixed / "val.bin", np.concatenate([own[:HELD_OUT] for own in rows.values()]))

done = options.out / "measured.txt"
measured = int(done.read_text()) if done.exists() else 0
for step in range(options.every, options.steps + 1, options.every):
    if step <= measured:
        continue
    start = "resume" if (kept / "ckpt.pt").exists() else "scratch"
    call(mixed, kept, step, options.every, init_from=start, always_save_checkpoint=True)
    for domain in shares:
        scratch = options.out / "measuring"
        shutil.rmtree(scratch, ignore_errors=True)
        scratch.mkdir()
        shutil.copy2(kept / "ckpt.pt", scratch)
        for line in call(options.out / "data" / domain, scratch, step, options.every, init_from="resume"):
            if line.startswith("step "):
                print(f"{domain}: {line}", flush=True)
    done.write_text(str(step))
