"""`notify`: who hears of a job is said before, and shown after; secrets are not."""

import base64
import threading

import pytest
import requests
from unit.jobs.notifications.receivers import hooks

from client.cli.job.job_records import T, attempt, job, put, store_of
from tpuctl import config
from tpuctl.config import Config, Context
from tpuctl.jobs.local import supervisor_lock
from tpuctl.models.job import JobSpec
from tpuctl.models.notify.notification import Notification, Sending, SendState
from tpuctl.models.notify.notify_spec import NotifyEvent, NotifyTarget, TargetKind

JOB = "name: digits\nresources: {accelerators: v5litepod-4}\nrun: echo hello\n"
SECRET = "B0123456789abcdefghijKLMN"
SECRETS = "/v1/projects/local-project/secrets"


@pytest.fixture
def job_file(tmp_path):
    def write(more: str) -> str:
        (tmp_path / "job.yaml").write_text(JOB + more)
        return str(tmp_path / "job.yaml")

    return write


@pytest.fixture
def supervised(cloud):
    """Ends the supervisor that a submission has started."""
    yield cloud
    supervisor_lock.stop_supervisor(cloud.home, "local")


def test_a_dry_run_says_who_will_hear_of_what(tpuctl, job_file):
    path = job_file(
        "notify:\n"
        "  - {slack: env:SLACK_URL, events: [failed, finished]}\n"
        "  - {email: {to: ada@example.com, from: t@example.com, host: mail}, events: [failed]}\n"
    )
    environ = {"SLACK_URL": f"https://hooks.example.com/{SECRET}"}
    shown = tpuctl("job", "submit", path, "--dry-run", environ=environ)
    assert shown.code == 0, shown.err
    assert "slack (env:SLACK_URL): failed, finished\n" in shown.out
    assert "email to ada@example.com: failed\n" in shown.out
    plan = tpuctl("job", "submit", path, "--dry-run", "-o", "json", environ=environ)
    assert plan.json["notify"][0] == {
        "target": "slack (env:SLACK_URL)",
        "events": ["failed", "finished"],
    }
    assert SECRET not in shown.out + shown.err + plan.out
    unknown = tpuctl("job", "submit", path, "--dry-run")
    assert unknown.code == 2
    assert unknown.err.startswith("error: secret env:SLACK_URL: the environment has no SLACK_URL\n")


def test_a_url_in_the_file_is_refused_and_not_repeated(offline, job_file):
    path = job_file(f"notify:\n  - slack: https://hooks.example.com/{SECRET}\n")
    result = offline("job", "lint", path)
    assert result.code == 2
    assert "notify[0].slack (line 5) does not say where the value is" in result.out
    assert SECRET not in result.out + result.err


def test_a_context_names_targets_for_jobs_that_name_none(offline, tmp_path):
    config.save(offline.home, Config("lab", {"lab": Context("lab", "p", "us-west4-a", "b")}))
    edit = ("context", "edit", "lab", "--no-check", "--notify")
    targets = ("slack: env:SLACK_URL", "{ntfy: 'https://ntfy.example.com/t', events: [failed]}")
    result = offline(*edit, targets[0], "--notify", targets[1])
    assert result.err == "context 'lab' is changed: notify\n"
    assert config.load(offline.home).contexts["lab"].notify == targets
    rows = offline("context", "show", "-o", "json").json
    assert {row["setting"]: row["value"] for row in rows}["notify"] == list(targets)
    refused = offline(*edit, f"slack: https://hooks.example.com/{SECRET}")
    assert refused.code == 2
    assert SECRET not in refused.err
    assert offline(*edit, "").code == 0
    assert config.load(offline.home).contexts["lab"].notify == ()


def test_a_cancelled_job_tells_those_of_its_file_by_secrets_of_both_kinds(
    tpuctl, supervised, job_file
):
    got = threading.Semaphore(0)
    with hooks() as hook, requests.Session() as session:
        hook.on_got = lambda _got: got.release()
        session.trust_env = False
        url = supervised.line["secretmanager"] + SECRETS
        session.post(f"{url}?secretId=chat", json={"replication": {"automatic": {}}}, timeout=10)
        value = base64.b64encode(hook.url(f"/chat?key={SECRET}").encode()).decode()
        session.post(f"{url}/chat:addVersion", json={"payload": {"data": value}}, timeout=10)
        path = job_file(
            "notify:\n"
            "  - google_chat: sm://projects/local-project/secrets/chat\n"
            "  - discord: env:DISCORD_URL\n"
        )
        environ = {"DISCORD_URL": hook.url(f"/discord/{SECRET}")}
        submitted = tpuctl("job", "submit", path, "-o", "name", environ=environ)
        assert submitted.code == 0, submitted.err
        assert "secrets handed over: env:DISCORD_URL\n" in submitted.err
        name = submitted.out.strip()
        assert tpuctl("job", "cancel", name).code == 0
        assert got.acquire(timeout=20)
        assert got.acquire(timeout=20)
    texts = {each.path.split("?")[0]: each.json for each in hook.got}
    assert texts["/chat"]["text"].startswith(f"*{name} was cancelled*\n")
    assert texts[f"/discord/{SECRET}"]["content"].startswith(f"**{name} was cancelled**\n")
    (key,) = {each.key for each in hook.got}
    assert key.startswith(f"{name}-finished-")  # it may have asked for a slice before
    log = supervisor_lock.log_path(supervised.home, "local").read_text()
    shown = tpuctl("job", "describe", name, "-o", "json")
    assert SECRET not in log + shown.out + submitted.err


def test_describe_shows_every_message_and_who_has_got_it(tpuctl, cloud):
    target = NotifyTarget(TargetKind.SLACK, "env:SLACK_URL", (NotifyEvent.FAILED,))
    sendings = (Sending(0, SendState.GIVEN_UP, T + 60, "HTTP 404: no_service"),)
    told = Notification("digits-1-failed-1", NotifyEvent.FAILED, T, 1, 1, "why", sendings)
    spec = JobSpec("digits", "true", notify=(target,))
    put(store_of(cloud.home), job(spec=spec, attempts=(attempt(),), notifications=(told,)))
    found = tpuctl("job", "describe", "digits-1", "-o", "json").json
    assert found["notify"] == [{"target": "slack (env:SLACK_URL)", "events": ["failed"]}]
    assert found["notifications"] == [
        {
            "id": "digits-1-failed-1",
            "event": "failed",
            "time": "2027-01-15T08:00:00Z",
            "attempt": 1,
            "targets": [
                {
                    "target": "slack (env:SLACK_URL)",
                    "state": "given-up",
                    "time": "2027-01-15T08:01:00Z",
                    "error": "HTTP 404: no_service",
                }
            ],
        }
    ]
    screen = tpuctl("job", "describe", "digits-1").out
    assert "\nnotify     slack (env:SLACK_URL)\n" in screen
    assert (
        "\nmessages\n  2027-01-15T08:00:00Z  failed  slack (env:SLACK_URL)  "
        "given-up: HTTP 404: no_service\n"
    ) in screen
