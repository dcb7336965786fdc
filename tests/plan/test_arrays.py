"""Arrays of SLURM are refused where the executor plugin would lose or misjudge their jobs."""

import pytest

from bimix.errors import InputError
from bimix.plan.arrays import check_arrays

SMALL, LARGE = {"_cores": 1, "gpu": 1, "runtime": 60}, {"_cores": 8, "gpu": 8, "runtime": 60}
JOBS = [("pretrain_model", SMALL)] * 3 + [("fit_law", {"_cores": 1})] + [("train_swarm", SMALL), ("train_swarm", LARGE)]


def test_arrays_take_jobs_alike_that_all_fit_in_the_queue_and_no_others() -> None:
    check_arrays("pretrain_model; fit_law", JOBS, 6)
    with pytest.raises(InputError, match=r"has 6 jobs and submits 5 at once.*--jobs 6 --max-jobs-per-timespan 6/1s"):
        check_arrays("pretrain_model", JOBS, 5)
    for named in ("train_swarm", "fit_law,train_swarm", "all"):
        with pytest.raises(InputError, match=r"jobs of train_swarm differ in cores \(1, 8\)"):
            check_arrays(named, JOBS, 100)
