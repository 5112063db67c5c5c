"""What a job may cost at most, by what its file says."""

import pytest

from tpuctl.models.job import Budget, JobRecord, JobSpec, Timeouts
from tpuctl.operations.jobs.plan import most_usd

HOUR_S = 3600.0


@pytest.mark.parametrize(
    ("timeouts", "budget", "usd_per_hour", "most"),
    [
        (Timeouts(), Budget(), 10.0, None),
        (Timeouts(setup_s=HOUR_S, run_s=2 * HOUR_S), Budget(), 10.0, 30.0),
        (Timeouts(setup_s=HOUR_S, run_s=2 * HOUR_S), Budget(), None, None),
        (Timeouts(setup_s=HOUR_S, run_s=2 * HOUR_S), Budget(hours=2.0), 10.0, 20.0),
        (Timeouts(), Budget(usd=5.0), 10.0, 5.0),
        (Timeouts(setup_s=0.0, run_s=HOUR_S), Budget(hours=9.0, usd=50.0), 10.0, 10.0),
    ],
)
def test_the_lowest_limit_counts(timeouts, budget, usd_per_hour, most):
    spec = JobSpec("digits", "true", timeouts=timeouts, budget=budget)
    job = JobRecord("digits-1", spec, "me", 0.0, "z", "v5litepod-16", usd_per_hour=usd_per_hour)
    assert most_usd(job) == most
