"""Sending: in order, again after a while, never without the lease, and never for ever."""

import asyncio
from dataclasses import dataclass, field, replace

import pytest

from tpuctl.errors import PermissionDeniedError
from tpuctl.jobs.interfaces import Clocks
from tpuctl.jobs.leases.lease import LeaseLostError
from tpuctl.jobs.notifications.notification_sender import NotificationSender
from tpuctl.jobs.secrets.job_secrets import SecretCache
from tpuctl.models.job import EventKind, JobRecord, JobSpec
from tpuctl.models.notify.notification import Notification, Sending, SendState
from tpuctl.models.notify.notify_spec import NotifyEvent, NotifyTarget, TargetKind
from tpuctl.network_policy import NOTIFICATION_GIVE_UP_S
from unit.jobs.notifications.receivers import HookServer, hooks

SECRET = "s3cr3t-of-the-hook"
BUSY = (503, "busy", {})


@pytest.fixture(scope="module")
def server():
    with hooks() as found:
        yield found


@pytest.fixture
def hook(server):
    server.got, server.answers = [], []
    return server


@dataclass
class Desk:
    """A sender whose clock is the pauses that it makes, and the record that it is given."""

    record: JobRecord
    vault: SecretCache
    now_s: float = 0.0
    pauses: list[float] = field(default_factory=list)
    confirm: object = lambda: None
    read_secret: object = lambda _reference: ""
    may_run: object = lambda _record, _command: False

    async def _sleep(self, pause_s: float) -> None:
        self.pauses.append(pause_s)
        self.now_s += pause_s
        await asyncio.sleep(0)

    def deliver(self) -> JobRecord:
        """The record after everything that can be sent was sent."""

        async def story() -> JobRecord:
            clocks = Clocks(lambda: self.now_s, lambda: self.now_s, self._sleep)
            sender = NotificationSender(
                clocks, 1, self.vault, self.confirm, self.read_secret, self.may_run, lambda: None
            )
            sender.send(self.record)
            await asyncio.gather(*sender.tasks.values())
            noted = sender.noted(self.record, self.now_s)
            sender.forget(noted)
            assert sender.results == {}
            return noted

        return asyncio.run(story())


def desk(*targets: NotifyTarget, count: int = 1, values=(), **known) -> Desk:
    sendings = tuple(Sending(number) for number in range(len(targets)))
    notifications = tuple(
        Notification(f"j-{number}", NotifyEvent.FINISHED, 0.0, 0, 1, "well", sendings)
        for number in range(count)
    )
    spec = JobSpec("j", "true", notify=targets)
    record = JobRecord(
        "j", spec, "ada@laptop", 0.0, "z", "v5litepod-1", host_id="laptop",
        fence=1, notifications=notifications,
    )  # fmt: skip
    vault = SecretCache("laptop", {})
    vault.take("j", dict(values))
    return Desk(record, vault, **known)


def webhook(hook: HookServer, path: str = "/hook") -> NotifyTarget:
    return NotifyTarget(TargetKind.WEBHOOK, hook.url(path))


def states(record: JobRecord) -> list[list[str]]:
    return [[each.state for each in found.sendings] for found in record.notifications]


def not_notified(record: JobRecord) -> list[str]:
    return [each.text for each in record.events if each.kind == EventKind.NOT_NOTIFIED]


def test_messages_to_a_target_keep_their_order_and_targets_do_not_wait_for_each_other(hook):
    hook.answers = [BUSY, BUSY]
    record = desk(webhook(hook), webhook(hook, "/other"), count=3).deliver()
    assert hook.keys() == hook.keys("/other") == ["j-0", "j-1", "j-2"]
    assert states(record) == [["sent", "sent"]] * 3


def test_a_target_that_is_away_is_tried_again_after_ever_longer_pauses(hook):
    hook.answers = [BUSY] * 5
    found = desk(webhook(hook))
    assert states(found.deliver()) == [["sent"]]
    assert len(found.pauses) == 5
    for number, pause_s in enumerate(found.pauses):
        assert 0 <= pause_s <= 2**number


def test_a_target_is_left_alone_for_as_long_as_it_asks(hook):
    hook.answers = [(429, "slow down", {"Retry-After": "30"})]
    found = desk(webhook(hook))
    assert states(found.deliver()) == [["sent"]]
    assert 30 <= found.pauses[0] <= 31


def test_a_target_that_stays_away_is_given_up_and_the_job_says_so(hook):
    hook.answers = [BUSY] * 1000
    found = desk(webhook(hook))
    record = found.deliver()
    assert states(record) == [["given-up"]]
    assert found.now_s <= NOTIFICATION_GIVE_UP_S
    assert not_notified(record) == ["webhook at 127.0.0.1 did not get j-0: HTTP 503: busy"]


def test_messages_that_wait_behind_one_that_is_given_up_are_given_up_with_it(hook):
    hook.answers = [BUSY] * 1000
    found = desk(webhook(hook), count=5)
    assert states(found.deliver()) == [["given-up"]] * 5
    assert found.now_s <= NOTIFICATION_GIVE_UP_S


@pytest.mark.parametrize("status", [301, 400, 403, 404, 410])
def test_a_refusal_is_not_asked_for_again(hook, status):
    hook.answers = [(status, "no", {"Location": hook.url("/elsewhere")})]
    found = desk(webhook(hook))
    assert states(found.deliver()) == [["given-up"]]
    assert (found.pauses, hook.got) == ([], [])


def test_nothing_is_sent_without_the_lease(hook):
    def lost() -> None:
        raise LeaseLostError

    record = desk(webhook(hook), confirm=lost).deliver()
    assert (states(record), hook.got) == ([["pending"]], [])


def test_a_url_that_was_handed_over_is_used_and_never_shown(hook):
    hook.answers = [(404, f"no {SECRET} here", {})]
    slack = NotifyTarget(TargetKind.SLACK, "env:SLACK_URL")
    url = hook.url(f"/services/{SECRET}")
    record = desk(slack, count=2, values={"env:SLACK_URL": url}).deliver()
    assert states(record) == [["given-up"], ["sent"]]
    assert not_notified(record) == ["slack (env:SLACK_URL) did not get j-0: HTTP 404: no *** here"]
    assert SECRET not in repr(record)


def test_nobody_listens_and_no_error_names_the_host():
    slack = NotifyTarget(TargetKind.SLACK, "env:SLACK_URL")
    values = {"env:SLACK_URL": f"http://127.0.0.1:1/{SECRET}"}
    (text,) = not_notified(desk(slack, values=values).deliver())
    assert text.startswith("slack (env:SLACK_URL) did not get j-0: no connection: ")
    assert "127.0.0.1" not in text


@pytest.mark.parametrize(
    ("url", "why"),
    [
        (f"http://hooks.example.com/{SECRET}", "its URL does not begin with https://"),
        (f"hooks.example.com/{SECRET}", "its URL is not one"),
        (f"https://[{SECRET}", "its URL is not one"),
    ],
)
def test_a_value_that_is_not_a_safe_url_is_not_used(url, why):
    found = desk(NotifyTarget(TargetKind.SLACK, "env:S"), values={"env:S": url})
    assert not_notified(found.deliver()) == [f"slack (env:S) did not get j-0: {why}"]
    assert found.pauses == []


def test_a_value_of_another_machine_is_not_looked_for_here(hook):
    found = desk(NotifyTarget(TargetKind.SLACK, "env:SLACK_URL"))
    found.vault.host_id, found.vault.environ = "vm", {"SLACK_URL": hook.url()}
    record = found.deliver()
    assert hook.got == []
    assert not_notified(record) == [
        "slack (env:SLACK_URL) did not get j-0: env:SLACK_URL is known on laptop alone, where the "
        "job was submitted"
    ]


def test_a_supervisor_that_began_again_finds_the_value_in_its_environment(hook):
    found = desk(NotifyTarget(TargetKind.SLACK, "env:SLACK_URL"))
    found.vault.environ = {"SLACK_URL": hook.url()}
    assert states(found.deliver()) == [["sent"]]


def test_a_reference_of_secret_manager_is_read_where_it_is_sent(hook):
    target = NotifyTarget(TargetKind.SLACK, "sm://projects/p/secrets/s")
    asked: list[str] = []

    def read(reference: str) -> str:
        asked.append(reference)
        return hook.url()

    assert states(desk(target, read_secret=read).deliver()) == [["sent"]]
    assert asked == ["sm://projects/p/secrets/s"]

    def refused(reference: str) -> str:
        raise PermissionDeniedError(f"{reference} cannot be read: HTTP 403")

    assert not_notified(desk(target, read_secret=refused).deliver()) == [
        "slack (sm://projects/p/secrets/s) did not get j-0: sm://projects/p/secrets/s cannot be "
        "read: HTTP 403"
    ]


def test_a_command_that_nobody_here_submitted_is_not_run():
    target = NotifyTarget(TargetKind.COMMAND, command=("touch", "/nowhere/evil"))
    assert not_notified(desk(target).deliver()) == [
        "command touch did not get j-0: a command runs on laptop alone, where the job was submitted"
    ]


def test_what_is_done_is_not_sent_again(hook):
    found = desk(webhook(hook), count=2)
    first, second = found.record.notifications
    sent = replace(first, sendings=(Sending(0, SendState.SENT, 1.0),))
    found.record = replace(found.record, notifications=(sent, second))
    found.deliver()
    assert hook.keys() == ["j-1"]


def test_a_record_that_lies_about_its_targets_costs_a_line(hook):
    found = desk(webhook(hook))
    (told,) = found.record.notifications
    lying = replace(told, sendings=(Sending(7), Sending(0)))
    found.record = replace(found.record, notifications=(lying,))
    record = found.deliver()
    assert hook.keys() == ["j-0"]
    assert not_notified(record) == ["target 7 did not get j-0: a bug in tpuctl: IndexError"]
