"""Checks SLURM job arrays first: the executor plugin 2.8 may wait for ever or mix resources."""

from bimix.errors import InputError

SENT = ("_cores", "gpu", "nodes", "mem_mb", "runtime", "slurm_partition")  # what sbatch is given of a job


def check_arrays(named: str, jobs: list[tuple[str, dict]], at_once: int) -> None:
    """Check the rules of `--slurm-array-jobs` against the planned jobs, each by rule and resources.

    Errors: more jobs are planned than may be submitted at once (the plugin forgets a ready job
    while another one of its rule is ready: its issue 473), or jobs of a rule need different
    resources (all of an array are submitted with those of the first).
    """
    if len(jobs) > at_once:
        raise InputError(
            f"--slurm-array-jobs: this call has {len(jobs)} jobs and submits {at_once} at once, so that the executor "
            f"plugin would forget some and wait for ever. Add --jobs {len(jobs)} --max-jobs-per-timespan {len(jobs)}/1s."
        )
    rules = {rule.strip() for rule in named.replace(";", ",").split(",")}
    for rule in sorted({own for own, _ in jobs if own in rules or "all" in rules}):
        for name in SENT:
            values = {str(resources.get(name)) for own, resources in jobs if own == rule}
            if len(values) > 1:
                raise InputError(
                    f"--slurm-array-jobs: jobs of {rule} differ in {name.strip('_')} ({', '.join(sorted(values))}), and "
                    f"the executor plugin gives all those of the first. Leave {rule} out, or name one model's runs."
                )
