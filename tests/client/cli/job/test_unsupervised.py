"""The one line at the end of a command when a job has no supervisor."""

import pytest

from tpuctl.cli.supervisor import warn_of_skipped_owners
from tpuctl.config import ANONYMOUS, Config, Context, save
from tpuctl.errors import LocalIOError
from tpuctl.jobs.leases import heartbeat, lease
from tpuctl.jobs.local import open_jobs, supervisor_lock
from tpuctl.jobs.local.open_jobs import OpenJobs
from tpuctl.jobs.submit.job_submission import default_owner
from tpuctl.models.job import JobRecord, JobSpec
from tpuctl.operations.jobs.supervise import parse_owners
from tpuctl.operations.jobs.supervision import cache_open_jobs
from tpuctl.store import open_store

NOW_S = 1_000_000.0
SPEC = JobSpec("digits", "true")


@pytest.fixture
def lab(tmp_path):
    """A runtime whose context is `lab`, and whose bucket is a directory; counts looks at it."""
    from io import StringIO

    from tpuctl.cli.shell.runtime import Runtime

    home = tmp_path / "home"
    save(home, Config("lab", {"lab": Context("lab", "p", "z", "b", credentials=ANONYMOUS)}))
    bucket = open_store(str(tmp_path / "bucket"))

    class Lab(Runtime):
        looks = 0

        def store(self, url=None):
            Lab.looks += 1
            return bucket

    def make(**environ):
        made = Lab(err=StringIO(), environ={"TPUCTL_HOME": str(home)}, now=lambda: NOW_S)
        assert made.context.name == "lab"
        return made

    make.home, make.bucket, make.kind = home, bucket, Lab
    return make


def said(runtime) -> str:
    from tpuctl.cli.shell import supervisor_warning

    supervisor_warning.warn_of_unsupervised_jobs(runtime)
    return runtime.err.getvalue()


def test_a_machine_that_knows_of_no_job_does_not_look(lab):
    lease.offer(lab.bucket, "digits-1", default_owner())
    assert (said(lab()), lab.kind.looks) == ("", 0)


def test_a_lock_that_cannot_be_opened_changes_no_exit_code(lab, monkeypatch):
    def refuse(_home, _name):
        raise LocalIOError("cannot open lab.lock: Permission denied")

    open_jobs.add_jobs(lab.home, "lab", "digits-1")
    monkeypatch.setattr(supervisor_lock, "is_locked", refuse)
    assert said(lab()) == ""


def test_a_command_for_another_context_leads_to_one_for_the_same(lab):
    lease.offer(lab.bucket, "digits-1", default_owner())
    open_jobs.add_jobs(lab.home, "lab", "digits-1")
    runtime = lab()
    runtime.shared.context = "lab"
    assert said(runtime) == (
        "warning: no supervisor looks after digits-1; run: tpuctl --context lab supervisor run\n"
    )


def test_a_supervisor_says_whose_jobs_it_left_alone(lab):
    lease.offer(lab.bucket, "digits-1", "ada@lab")
    lease.offer(lab.bucket, "digits-2", "bob@desk")
    runtime = lab()
    warn_of_skipped_owners(runtime, parse_owners("ada"))
    assert runtime.err.getvalue() == (
        "warning: jobs of bob@desk have no supervisor, and this one left them alone; "
        "run: tpuctl supervisor run --accept bob@desk\n"
    )


def test_a_job_without_a_supervisor_is_told_with_the_command(lab):
    lease.offer(lab.bucket, "digits-1", default_owner())
    open_jobs.add_jobs(lab.home, "lab", "digits-1")
    line = "warning: no supervisor looks after digits-1; run: tpuctl supervisor run\n"
    assert said(lab()) == line
    assert (said(lab()), lab.kind.looks) == (line, 1)  # a minute has not passed


def test_a_list_made_while_it_was_in_care_here_keeps_nobody_from_looking(lab):
    lease.offer(lab.bucket, "digits-1", default_owner())
    with supervisor_lock.hold(lab.home, "lab"):
        cache_open_jobs(lab(), [JobRecord("digits-1", SPEC, "me", NOW_S, "z", "v5litepod-4")], [])
        assert said(lab()) == ""
    assert said(lab()).startswith("warning: no supervisor looks after digits-1; run: ")


def test_somebody_elses_job_is_told_with_its_owner(lab):
    for number in range(5):
        lease.offer(lab.bucket, f"digits-{number}", "ada@laptop")
    open_jobs.add_jobs(lab.home, "lab", "digits-0")
    assert said(lab()) == (
        "warning: no supervisor looks after digits-0, digits-1, digits-2 and 2 more jobs; "
        "run: tpuctl supervisor run --accept ada@laptop\n"
    )


def test_jobs_in_good_hands_are_no_news(lab):
    held = heartbeat.Heartbeat(lab.bucket, "elsewhere-1", {}, lambda: 0.0)
    held.beat()
    lease.take(lab.bucket, lease.offer(lab.bucket, "digits-1", "me"), "elsewhere-1")
    open_jobs.add_jobs(lab.home, "lab", "digits-1")
    assert said(lab()) == ""
    assert open_jobs.load(lab.home, "lab") == OpenJobs(("digits-1",), (), (), NOW_S)


def test_while_a_supervisor_runs_here_nobody_looks(lab):
    lease.offer(lab.bucket, "digits-1", default_owner())
    open_jobs.add_jobs(lab.home, "lab", "digits-1")
    with supervisor_lock.hold(lab.home, "lab"):
        assert (said(lab()), lab.kind.looks) == ("", 0)


def test_jobs_that_ended_elsewhere_are_forgotten(lab):
    open_jobs.add_jobs(lab.home, "lab", "digits-1")
    assert said(lab()) == ""
    assert open_jobs.load(lab.home, "lab") == OpenJobs()
    assert (said(lab()), lab.kind.looks) == ("", 1)


def test_a_command_that_has_told_it_says_no_more(lab):
    lease.offer(lab.bucket, "digits-1", default_owner())
    open_jobs.add_jobs(lab.home, "lab", "digits-1")
    runtime = lab()
    runtime.supervisor_warned = True
    assert said(runtime) == ""


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"jobs": 1}'])
def test_a_file_that_cannot_be_read_says_nothing(lab, content):
    open_jobs.add_jobs(lab.home, "lab", "digits-1")
    (lab.home / "supervisors" / "lab.jobs").write_bytes(content)
    assert said(lab()) == ""


def test_a_settled_job_is_taken_from_the_file(lab):
    open_jobs.add_jobs(lab.home, "lab", "a", "b")
    open_jobs.remove_job(lab.home, "lab", "a")
    assert open_jobs.load(lab.home, "lab").jobs == ("b",)
    open_jobs.remove_job(lab.home, "lab", "b")
    assert not (lab.home / "supervisors" / "lab.jobs").exists()


@pytest.mark.parametrize("argv", [["--version"], ["context", "list"], ["catalog", "types"]])
def test_a_command_of_no_context_never_says_it(offline, argv):
    open_jobs.add_jobs(offline.home, "local", "digits-1")
    assert offline(*argv).err == ""
    assert not (offline.home / "local").exists()
