"""Find the mixture with the least predicted loss at a step, or of a model of another size.

coefficients.json, optional target weights and bounds {domain: number} -> mixture.json {domain:
proportion}, sums to 1; with --report what its objective is there, what certifies it, and how far it
lies from the runs
"""

import argparse
import sys
from pathlib import Path

from bimix.errors import InputError, run
from bimix.laws.document import checked_law
from bimix.laws.fitted import far_ahead
from bimix.mixtures.mixture import as_mixture
from bimix.optimum.flags import add_flags, note_unlimited
from bimix.optimum.optimum import Sought
from bimix.optimum.report import described, epochs_sentence, fitted_support, further_epochs, report
from bimix.outputs import write_json
from bimix.transfer.run import far_apart, size_read
from bimix.transfer.unseen import unseen_sentence


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--coefficients", type=Path, required=True, help="written by fit_law.py")
    parser.add_argument(
        "--step",
        type=int,
        help="training steps of the run to be made good; a law fitted to one step or to several sizes needs none",
    )
    add_flags(parser, "bounds", "objective", "centre", "run-tokens", "parameters")
    parser.add_argument("--mixtures", type=Path, help="those it was fitted to: says how far the optimum lies from them")
    parser.add_argument("--out", type=Path, required=True, help="mixture.json")
    parser.add_argument("--report", type=Path, help="JSON of what is said of the mixture")
    options = parser.parse_args(argv)

    fitted = checked_law(options.coefficients)
    if options.step is None and "rows" not in fitted and len(fitted["steps"]) > 1:
        raise InputError("--step is missing: the steps of the run to be made good, as the law was fitted over steps.")
    step = fitted["steps"][-1] if options.step is None else options.step
    if step <= 0:
        raise InputError(f"--step is {step}: it must be above 0.")
    ahead = far_ahead(fitted, step)
    sought = Sought.of(options, fitted, step)
    note_unlimited(sought.fitted, sought.pools, sought.run_tokens)
    found = sought.best()
    where = fitted_support(sought.fitted, found.shares, options.mixtures) if options.mixtures else None
    further = further_epochs(sought.fitted, found.shares, sought.pools, sought.run_tokens)
    reported = report(sought, found, where, further)
    as_mixture(fitted["domains"], found.shares).write(options.out)
    if options.report:
        law = "/".join(options.coefficients.parts[-4:-1])  # below laws/ of a dataset: model, law, group
        write_json(options.report, reported | {"requested": {"law": law} | sought.request(options.parameters)})
    print("\n".join(described(sought, found, reported)))
    apart = far_apart(sought.fitted["coefficients"], size_read(sought.fitted))
    new = unseen_sentence(sought.fitted, found.shares)
    for note in filter(None, (found.loose(), where and where.sentence(), apart, ahead, epochs_sentence(further), new)):
        print(f"warning: {note}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(run(main))
