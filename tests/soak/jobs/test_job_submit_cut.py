"""`job submit` killed, or not answered, at each of its requests: one job or none, never half a one.

The command line is a real process in front of a real simulator, with a proxy between them.
"""

import os
import subprocess
import sys
from dataclasses import replace

import pytest
from clouds import Runner, serve

from soak.cloud.cutting_proxy import CuttingProxy
from tpuctl import config
from tpuctl.cli.shell.runtime import Runtime
from tpuctl.config import Config
from tpuctl.jobs.leases import lease
from tpuctl.jobs.local import supervisor_lock
from tpuctl.jobs.record import record_store
from tpuctl.operations.local import local_cloud

JOB = "name: cut\nresources: {accelerators: v5litepod-4}\nworkdir: work\nrun: cat hello.txt\n"
AT_ONCE = (
    "provisioning_delay_s: 0.1\nacceptance_delay_s: 0.05\n"
    "deletion_delay_s: 0.05\nsuspension_delay_s: 0.05\n"
)


class Place:
    """A simulator, a proxy in front of its storage, and a home with a context of each."""

    def __init__(self, cloud, proxy, directory):
        self.cloud, self.proxy, self.home = cloud, proxy, cloud.home
        direct = replace(local_cloud.context_of(cloud.line), name="direct")
        cut = replace(direct, name="cut", storage_endpoint=f"http://{proxy.address}")
        config.save(self.home, Config(None, {"direct": direct, "cut": cut}))
        environ = {"TPUCTL_HOME": str(self.home), "TPUCTL_CONTEXT": "direct"}
        self.store = Runtime(environ=environ).store()
        self.tpuctl = Runner(self.home)
        self.file = directory / "job.yaml"
        self.file.write_text(JOB)
        (directory / "work").mkdir()
        (directory / "work" / "hello.txt").write_text("hello\n")

    def submit(self, cut, *, late, kill):
        """The exit status of a submission that is cut at its cut-th request."""
        argv = [sys.executable, "-P", "-m", "tpuctl", "-c", "cut", "job", "submit", str(self.file)]
        environ = {**os.environ, "TPUCTL_HOME": str(self.home)}
        # With the seat taken the submission is all that is asked for: no supervisor is started.
        with supervisor_lock.hold(self.home, "cut"):
            self.proxy.arm(0, late=late, on_cut=lambda: None)
            process = subprocess.Popen(
                argv, env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE
            )
            self.proxy.arm(cut, late=late, on_cut=process.kill if kill else lambda: None)
            process.communicate(timeout=60)
        return process.returncode

    def supervise(self):
        """Until every job is settled."""
        result = self.tpuctl("-c", "direct", "supervisor", "run")
        assert result.code == 0, result.err

    def jobs(self):
        return record_store.load_all(
            self.store, on_unreadable=lambda error: pytest.fail(str(error))
        )

    def forget(self):
        """What is left of a submission that was cut before its record was there."""
        known = {job.job_id for job in self.jobs()}
        left = [each for each in lease.list_leases(self.store, {}) if each.job_id not in known]
        for each in left:
            assert lease.withdraw(self.store, each)
        return len(left)


@pytest.fixture(scope="module")
def submit_place(tmp_path_factory):
    directory = tmp_path_factory.mktemp("submit-cut")
    scenario = directory / "scenario.yaml"
    scenario.write_text(AT_ONCE)
    options = ("--isolation", "process", "--scenario", str(scenario))
    for cloud in serve(directory / "home", *options):
        proxy = CuttingProxy(cloud.line["storage"])
        yield Place(cloud, proxy, directory)
        proxy.close()


def requests_of_a_submission(place):
    assert place.submit(0, late=False, kill=False) == 0
    return place.proxy.count


def cut_at(place, cut, *, late, kill):
    """One job or none afterwards, which ends well and leaves no slice; submitting again works."""
    before = {job.job_id for job in place.jobs()}
    status = place.submit(cut, late=late, kill=kill)
    new = [job for job in place.jobs() if job.job_id not in before]
    assert len(new) <= 1, "two jobs of one submission"
    if not kill:
        assert (status, len(new)) == (0, 1), "an answer that was lost is asked for again"
    place.forget()
    place.supervise()
    for job in place.jobs():
        assert (job.state, len(job.attempts), job.is_settled) == ("SUCCEEDED", 1, True)
    assert place.tpuctl("-c", "direct", "qr", "list", "-o", "name").out == ""
    return len(new)


@pytest.mark.parametrize(("cut", "late", "kill"), [(2, True, True)])
def test_a_submission_that_is_cut_is_one_job_or_none(submit_place, cut, late, kill):
    cut_at(submit_place, cut, late=late, kill=kill)
    assert submit_place.proxy.count >= cut


@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_a_submission_cut_at_every_request_is_one_job_or_none(submit_place):
    points, jobs = 0, 0
    for cut in range(1, requests_of_a_submission(submit_place) + 1):
        for late in (False, True):
            for kill in (False, True):
                jobs += cut_at(submit_place, cut, late=late, kill=kill)
                points += 1
    assert submit_place.submit(0, late=False, kill=False) == 0
    print(f"\n{points} cut points of a submission: {jobs} jobs, 0 twice, 0 slices left")
