"""One message in the shape of every service, and mail."""

import json
from dataclasses import replace

import pytest

from tpuctl.jobs.notifications.delivery import mail
from tpuctl.jobs.notifications.messages import NotificationMessage, message_of
from tpuctl.jobs.notifications.shapes import DISCORD_CHARS, REQUESTS, message_text, secret_parts
from tpuctl.models.job import (
    Attempt,
    AttemptOutcome,
    AttemptState,
    JobRecord,
    JobSpec,
    JobState,
    Phase,
    WorkerReport,
)
from tpuctl.models.notify.notification import Notification
from tpuctl.models.notify.notify_spec import MailSettings, NotifyEvent, TargetKind

LINES = ("Traceback (most recent call last):", "ValueError: <nan> & more")
FIRST = WorkerReport(
    1, phase=Phase.ENDED, stage="run", exit_status=3, closed=True, last_lines=LINES
)
ATTEMPT = Attempt(
    2, "us-west4-a", "n", AttemptState.ENDED, owned=True, outcome=AttemptOutcome.FAILED,
    first_worker=1, last_step=130, workers=(WorkerReport(0, phase=Phase.ENDED), FIRST),
)  # fmt: skip
EARLIER = replace(ATTEMPT, number=1, outcome=AttemptOutcome.PREEMPTED, reason="node n is PREEMPTED")
RECORD = JobRecord(
    "digits-a1b2c3", JobSpec("digits", "true"), "ada@laptop", 0.0, "us-west4-a", "v5litepod-16",
    state=JobState.FAILED, fence=2, attempts=(EARLIER, ATTEMPT),
)  # fmt: skip
TEXT = "worker 1: the program ended with status 3"


def message(event=NotifyEvent.FAILED, fence=2, text=TEXT, record=RECORD) -> NotificationMessage:
    identity = f"digits-a1b2c3-{event}-2"
    return message_of(record, Notification(identity, event, 1800000000.0, 2, 2, text), fence)


def request(kind: TargetKind, url="https://h.example.com/secret", **asked):
    return REQUESTS[kind](url, message(**asked))


def test_a_failure_has_the_first_worker_and_its_last_lines():
    found = message()
    assert found.title == "digits-a1b2c3 failed: worker 1: the program ended with status 3"
    assert found.plain_text == (
        "worker 1 was the first: the program ended with status 3\n"
        "attempt 2 on v5litepod-16 in us-west4-a, step 130\n"
        "  Traceback (most recent call last):\n"
        "  ValueError: <nan> & more\n"
        "run: tpuctl job describe digits-a1b2c3"
    )


@pytest.mark.parametrize(
    ("event", "text", "title"),
    [
        ("started", "", "started on v5litepod-16 in us-west4-a"),
        ("preempted", "node n is PREEMPTED", "was preempted: node n is PREEMPTED"),
        ("resumed", "", "runs again: attempt 2 on v5litepod-16 in us-west4-a"),
        ("finished", "all 2 workers ended well", "succeeded: all 2 workers ended well"),
        ("over-budget", "budget: 5 USD are used up", "is stopped: budget: 5 USD are used up"),
        (
            "unsupervised",
            "from 08:00Z on, for 2.0 h",
            "had no supervisor from 08:00Z on, for 2.0 h",
        ),
        ("idle", "no process has held them", "does not use its chips: no process has held them"),
    ],
)
def test_every_event_has_a_title(event, text, title):
    assert message(NotifyEvent(event), text=text).title == f"digits-a1b2c3 {title}"


def test_a_message_about_going_on_says_what_was_in_the_way():
    assert message(NotifyEvent.RESUMED).details[0] == "attempt 1 preempted: node n is PREEMPTED"


def test_slack_gets_escaped_text():
    found = request(TargetKind.SLACK)
    assert json.loads(found.body) == {
        "text": (
            "*digits-a1b2c3 failed: worker 1: the program ended with status 3*\n"
            "worker 1 was the first: the program ended with status 3\n"
            "attempt 2 on v5litepod-16 in us-west4-a, step 130\n"
            "```\nTraceback (most recent call last):\nValueError: &lt;nan&gt; &amp; more\n```\n"
            "`tpuctl job describe digits-a1b2c3`"
        )
    }
    assert found.headers["Idempotency-Key"] == "digits-a1b2c3-failed-2"


def test_discord_mentions_nobody_and_has_2000_characters_at_most():
    long = replace(FIRST, last_lines=tuple(f"{n} " + "x" * 300 for n in range(20)))
    attempt = replace(ATTEMPT, workers=(long,))
    noisy = replace(RECORD, attempts=(EARLIER, attempt))
    found = json.loads(request(TargetKind.DISCORD, record=noisy).body)
    assert found["allowed_mentions"] == {"parse": []}
    assert len(found["content"]) <= DISCORD_CHARS
    assert "\n19 xxx" in found["content"], "the newest lines stay"
    assert found["content"].endswith("`tpuctl job describe digits-a1b2c3`")


def test_google_chat_gets_the_id_as_its_request_id_and_the_same_text_again():
    url = "https://chat.example.com/v1/spaces/A/messages?key=K&token=T%3D"
    first, again = (request(TargetKind.GOOGLE_CHAT, url, fence=fence) for fence in (2, 3))
    assert first == again
    assert first.url == (
        "https://chat.example.com/v1/spaces/A/messages?key=K&token=T%3D"
        "&requestId=digits-a1b2c3-failed-2"
    )


def test_our_own_json_is_public():
    found = json.loads(request(TargetKind.WEBHOOK, fence=3).body)
    assert {**found, "text": ""} == {
        "schema": 1, "id": "digits-a1b2c3-failed-2", "event": "failed",
        "time": "2027-01-15T08:00:00Z", "repeat": True,
        "title": "digits-a1b2c3 failed: worker 1: the program ended with status 3", "text": "",
        "job": "digits-a1b2c3", "name": "digits", "state": "FAILED", "attempt": 2,
        "accelerator_type": "v5litepod-16", "zone": "us-west4-a", "owner": "ada@laptop",
        "first_worker": 1, "last_lines": list(LINES),
    }  # fmt: skip


def test_ntfy_gets_headers_and_a_token_as_a_password():
    found = request(TargetKind.NTFY, "https://:tk_1@ntfy.example.com/tpu")
    assert found.url == "https://ntfy.example.com/tpu"
    assert found.headers == {
        "Title": "digits-a1b2c3 failed: worker 1: the program ended with status 3",
        "Priority": "high",
        "Tags": "rotating_light",
        "X-Sequence-ID": "digits-a1b2c3-failed-2",
        "Idempotency-Key": "digits-a1b2c3-failed-2",
        "Content-Type": "text/plain; charset=utf-8",
        "Authorization": "Basic OnRrXzE=",
    }


@pytest.mark.parametrize("kind", [TargetKind.SLACK, TargetKind.DISCORD, TargetKind.NTFY])
def test_who_cannot_tell_a_repeat_by_its_id_is_told(kind):
    assert b"may be a repeat" not in request(kind).body
    assert b"may be a repeat" in request(kind, fence=3).body


def test_a_line_of_a_program_can_neither_end_a_header_nor_a_block():
    evil = message(NotifyEvent.FINISHED, text="a\r\nX-Evil: 1\x1b[2J \u2028é")
    assert evil.title == "digits-a1b2c3 succeeded: a X-Evil: 1 é"
    headers = REQUESTS[TargetKind.NTFY]("https://h.example.com", evil).headers
    assert headers["Title"].startswith("=?UTF-8?B?")
    fenced = replace(message(), last_lines=("``` @everyone",))
    assert "\n''' @everyone\n" in message_text(fenced, 4000, bold="*")


def test_a_mail_has_the_same_id_each_time_and_is_no_answer():
    settings = MailSettings(("ada@example.com", "bob@example.com"), "t@example.com", "h", 25)
    first, again = (mail.compose(settings, message(fence=fence)) for fence in (2, 3))
    assert first["Message-ID"] == again["Message-ID"] == "<digits-a1b2c3-failed-2@tpuctl.invalid>"
    assert first["To"] == "ada@example.com, bob@example.com"
    assert first["Auto-Submitted"] == "auto-generated"
    assert first["Subject"] == message().title
    assert "(this may be a repeat)" in again.get_content()


def test_every_part_of_a_url_that_may_be_a_token_is_known():
    parts = secret_parts("https://u:p%40ss@h.example.com/services/T0/B1?token=a%2Fb")
    assert {"T0", "B1", "a/b", "a%2Fb", "u", "p%40ss", "/services/T0/B1"} <= set(parts)
