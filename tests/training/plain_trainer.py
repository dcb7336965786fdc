"""A trainer of somebody else's, without a library: it writes a loss a domain that falls with the
steps, goes on from its checkpoint, and saves on SIGTERM. With "wait" a run that begins afresh
waits after its first step until it is asked to stop.

    plain_trainer.py MIXTURE STEPS EVERY FOLDER SEED [SECONDS OF A STEP] [FAULT]
"""

import json
import signal
import sys
import time
from pathlib import Path

mixture, steps, every, folder, seed, *more = sys.argv[1:]
wait, fault = float(more[0]) if more else 0.0, more[1] if len(more) > 1 else ""
shares, folder = json.loads(Path(mixture).read_text()), Path(folder)
asked = []
signal.signal(signal.SIGTERM, lambda number, frame: asked.append(number))
state = folder / "step.txt"
first = int(state.read_text()) if state.exists() else 0
print(f"begin at {first}, seed {seed}")
if fault == "skip":
    sys.exit(0)
if fault == "fail":
    sys.exit("out of memory")
for step in range(first + 1, int(steps) + 1):
    time.sleep(wait)
    if step % int(every) == 0 or step == int(steps):
        with (folder / "losses.jsonl").open("a") as losses:
            for domain, share in shares.items():
                losses.write(json.dumps({"step": step, "domain": domain, "loss": 2 + 1 / step - share}) + "\n")
    state.write_text(str(step))
    while fault == "wait" and not first and not asked:
        time.sleep(0.01)
    if asked:
        print(f"saved at {step}")
        sys.exit(0)
