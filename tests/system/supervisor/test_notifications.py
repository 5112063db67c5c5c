"""Messages about a job that really runs: to servers for HTTP and mail, and to a command."""

import asyncio
from contextlib import ExitStack

import pytest
from unit.jobs.notifications.receivers import hooks, mailbox

from tpuctl.jobs.leases import lease
from tpuctl.jobs.leases.supervisor_scope import SupervisorScope
from tpuctl.jobs.local import notify_commands
from tpuctl.jobs.notifications import due_notifications, idle_watch
from tpuctl.jobs.secrets.job_secrets import SecretCache
from tpuctl.jobs.supervisor import supervisor
from tpuctl.models.job import EventKind
from tpuctl.models.notify.notify_spec import (
    MailSecurity,
    MailSettings,
    NotifyEvent,
    NotifyTarget,
    TargetKind,
)

ALL = tuple(NotifyEvent)
TOKEN = "T0KEN-of-a-hook"
PASSWORD = "pass-word-1"


@pytest.fixture
def servers():
    with ExitStack() as stack:
        yield (
            stack.enter_context(hooks()),
            stack.enter_context(mailbox(login=("tpu", PASSWORD))),
        )


def supervise(world, environ):
    """A supervisor with that environment, until the job is settled and everybody was told."""
    scope = SupervisorScope(("me",), 0.2)
    vault = SecretCache("", environ)
    running = supervisor.run(world.outside, scope, home=world.home, vault=vault)
    asyncio.run(asyncio.wait_for(running, 30.0))


def everything(directory) -> bytes:
    """What lies in files there."""
    files = (path for path in directory.rglob("*") if path.is_file())
    return b"\0".join(path.read_bytes() for path in files)


def test_a_job_tells_every_target_of_its_start_and_its_failure_once(world, servers, tmp_path):
    hook, mail = servers
    told = tmp_path / "told"
    command = ("sh", "-c", f'(echo "$TPUCTL_NOTIFICATION_EVENT"; cat) >> {told}')
    settings = MailSettings(
        ("ada@example.com",), "tpu@example.com", "127.0.0.1", mail.port, MailSecurity.NONE,
        "tpu", "env:SMTP_PASSWORD",
    )  # fmt: skip
    targets = (
        NotifyTarget(TargetKind.SLACK, "env:SLACK_URL", ALL),
        NotifyTarget(TargetKind.WEBHOOK, hook.url("/ours"), ALL),
        NotifyTarget(TargetKind.EMAIL, "", (NotifyEvent.FAILED,), mail=settings),
        NotifyTarget(TargetKind.COMMAND, "", (NotifyEvent.FAILED,), command=command),
    )
    job = world.submit(f"echo the token is {TOKEN}; exit 3", notify=targets)
    notify_commands.allow(world.home, "here", job.job_id, [command])
    supervise(world, {"SLACK_URL": hook.url(f"/slack/{TOKEN}"), "SMTP_PASSWORD": PASSWORD})

    started, failed = f"{job.job_id}-started-1", f"{job.job_id}-failed-1"
    assert hook.keys("/ours") == hook.keys(f"/slack/{TOKEN}") == [started, failed]
    last = next(each.json for each in hook.got if each.key == failed and each.path == "/ours")
    assert last["title"] == f"{job.job_id} failed: worker 0: the program ended with status 3"
    assert (last["first_worker"], last["repeat"]) == (0, False)
    [letter] = mail.mails
    assert letter["Message-ID"] == f"<{failed}@tpuctl.invalid>"
    assert told.read_text().startswith(f"failed\n{last['title']}\n")

    record = world.record(job)
    assert [each.notification_id for each in record.notifications] == [started, failed]
    assert not any(each.is_open for each in record.notifications)
    kept = everything(world.home) + world.store.get_range(f"tpuctl/records/{job.job_id}")
    assert PASSWORD.encode() not in kept
    assert hook.url(f"/slack/{TOKEN}").encode() not in kept


def test_a_target_that_refuses_costs_the_job_nothing_and_is_an_event(world, servers):
    hook, _ = servers
    hook.answers = [(404, f"no hook {TOKEN}", {})]
    target = NotifyTarget(TargetKind.SLACK, "env:SLACK_URL", (NotifyEvent.FINISHED,))
    job = world.submit("true", notify=(target,))
    supervise(world, {"SLACK_URL": hook.url(f"/{TOKEN}")})
    record = world.record(job)
    assert record.state == "SUCCEEDED"
    assert [each.text for each in record.events if each.kind == EventKind.NOT_NOTIFIED] == [
        f"slack (env:SLACK_URL) did not get {job.job_id}-finished-1: HTTP 404: no hook ***"
    ]


def test_a_job_that_has_ended_is_let_go_when_everybody_was_told(world, servers):
    hook, _ = servers
    hook.answers = [(503, "away", {})] * 2
    target = NotifyTarget(TargetKind.WEBHOOK, hook.url(), (NotifyEvent.FINISHED,))
    job = world.submit("true", notify=(target,))
    supervise(world, {})
    (told,) = world.record(job).notifications
    assert (told.sendings[0].state, hook.keys()) == ("sent", [f"{job.job_id}-finished-1"])
    assert told.sendings[0].error == ""
    assert lease.list_leases(world.store, {}) == []


def test_a_job_that_nobody_looked_after_tells_of_it_when_somebody_does(world, servers, monkeypatch):
    hook, _ = servers
    monkeypatch.setattr(due_notifications, "UNSUPERVISED_S", 0.0)
    target = NotifyTarget(TargetKind.WEBHOOK, hook.url(), (NotifyEvent.UNSUPERVISED,))
    job = world.submit('while [ ! -e "$HOME/end" ]; do sleep 0.05; done', notify=(target,))

    async def first():
        supervising = asyncio.create_task(world.supervise())
        await world.until(job, lambda found: found.state == "RUNNING")
        supervising.cancel()
        await asyncio.gather(supervising, return_exceptions=True)

    asyncio.run(first())
    assert world.record(job).left_s is not None
    (world.disk(f"{job.job_id}-a1", 0) / "end").touch()
    supervise(world, {})
    record = world.record(job)
    assert (record.state, record.left_s) == ("SUCCEEDED", None)
    assert set(hook.keys()) == {f"{job.job_id}-unsupervised-{number}" for number in (0, 1)}
    assert hook.got[-1].json["title"].startswith(f"{job.job_id} had no supervisor from ")


@pytest.mark.soak  # the first sample comes after 10 s
def test_a_program_that_does_not_use_its_chips_is_told(world, servers, monkeypatch):
    hook, _ = servers
    monkeypatch.setattr(idle_watch, "IDLE_S", 0.0)
    target = NotifyTarget(TargetKind.WEBHOOK, hook.url(), (NotifyEvent.IDLE,))
    job = world.submit('while [ ! -e "$HOME/end" ]; do sleep 0.05; done', notify=(target,))
    end = world.disk(f"{job.job_id}-a1", 0) / "end"
    hook.on_got = lambda _got: end.touch()

    def watch(pool) -> None:
        pool.chips_are_free = lambda _sample: True

    scope = SupervisorScope(("me",), 0.2)
    running = supervisor.run(world.outside, scope, home=world.home, on_pool=watch)
    asyncio.run(asyncio.wait_for(running, 60.0))
    assert hook.keys() == [f"{job.job_id}-idle-1"]
    assert (
        "does not use its chips: no process has held those of worker 0"
        in (hook.got[0].json["title"])
    )
