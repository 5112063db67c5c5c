"""The field `notify`: what it may say, and that no error repeats a secret."""

import pytest

from tpuctl.errors import UsageError
from tpuctl.jobs.spec import file_notify
from tpuctl.jobs.spec.job_file import load
from tpuctl.models.notify.notify_spec import (
    DEFAULT_EVENTS,
    MailSecurity,
    MailSettings,
    NotifyEvent,
    NotifyTarget,
    TargetKind,
)

JOB = "name: digits\nresources: {accelerators: v5litepod-4}\nrun: echo hello\n"
SECRET = "B0123456789abcdefghijKLMN"


def targets(tmp_path, text: str):
    file = tmp_path / "job.yaml"
    file.write_text(JOB + text)
    return load(file, bucket="b", environ={}).notify


def test_each_target_has_one_receiver_and_its_events(tmp_path):
    text = """\
notify:
  - slack: env:SLACK_URL
    events: [failed, finished, failed]
  - ntfy: file:topic
  - email: {to: ada@example.com, from: t@example.com, host: smtp.example.com}
  - command: [notify-send, tpuctl]
    events: []
"""
    assert targets(tmp_path, text) == (
        NotifyTarget(TargetKind.SLACK, "env:SLACK_URL", (NotifyEvent.FAILED, NotifyEvent.FINISHED)),
        NotifyTarget(TargetKind.NTFY, f"file:{tmp_path}/topic", DEFAULT_EVENTS),
        NotifyTarget(
            TargetKind.EMAIL,
            mail=MailSettings(("ada@example.com",), "t@example.com", "smtp.example.com", 587),
        ),
        NotifyTarget(TargetKind.COMMAND, command=("notify-send", "tpuctl"), events=()),
    )


@pytest.mark.parametrize(("text", "found"), [("", None), ("notify: []\n", ())])
def test_no_list_is_not_an_empty_list(tmp_path, text, found):
    assert targets(tmp_path, text) == found


@pytest.mark.parametrize(
    ("tls", "security", "port"),
    [("tls", MailSecurity.TLS, 465), ("none", MailSecurity.NONE, 25)],
)
def test_the_port_follows_from_the_encryption(tls, security, port):
    text = f"email: {{to: [a@b.c, d@e.f], from: t@b.c, host: mail, tls: {tls}}}"
    settings = file_notify.read_target(text).mail
    assert settings == MailSettings(("a@b.c", "d@e.f"), "t@b.c", "mail", port, security)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        (
            f"slack: https://hooks.example.com/{SECRET}",
            "--notify.slack (line 1) does not say where the value is, and a value here could be "
            "read by everybody who reads the job",
        ),
        (f"https://hooks.example.com/{SECRET}",
         "--notify (line 1) must be a mapping of keys to values, not a value"),
        (f"webhook: https://h.example.com/x/{SECRET}",
         "--notify.webhook is a URL with a token in its path, which everybody who reads the job "
         "could use"),
        (f'webhook: "https://h.example.com/?key={SECRET}"',
         "--notify.webhook is a URL with a query, which everybody who reads the job could use"),
        (f"ntfy: https://ada:{SECRET}@h.example.com/t",
         "--notify.ntfy is a URL with a user or a password, which everybody who reads the job "
         "could use"),
        (f"{{email: {{to: a@b.c, from: a@b.c, host: m, user: u, password: {SECRET}}}}}",
         "--notify.email.password (line 1) does not say where the value is, and a value here could "
         "be read by everybody who reads the job"),
        (f"slack: [{SECRET}",
         "a target of --notify is not YAML"),
        ("{slack: env:A, ntfy: env:B}", "--notify has slack and ntfy"),
        ("events: [failed]", "--notify has no receiver"),
        ("{slack: env:A, events: [fail]}",
         "--notify.events (line 1) must be a list of events, each started or preempted or resumed "
         "or failed or finished or over-budget or unsupervised or idle, not 'fail'"),
        ("{email: {to: a@b.c, from: a@b.c, host: m, user: u}}", "--notify.email has no password"),
        ("{email: {to: a@b.c, from: a@b.c, host: m, user: u, password: env:P, tls: none}}",
         "--notify.email would send its password without encryption"),
        ("command: []", "--notify.command has no program"),
        ("slack: file:url", "--notify.slack: file:url is not an absolute path"),
        ("webhook: https:///x", "--notify.webhook is a URL with no host, which everybody who reads "
         "the job could use"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_without_the_secret(text, error):
    with pytest.raises(UsageError) as raised:
        file_notify.read_target(text)
    assert str(raised.value) == error
    assert SECRET not in f"{raised.value.hint}"


def test_a_place_in_a_file_has_its_line(tmp_path):
    with pytest.raises(UsageError, match=r"notify\[1\].slack \(line 6\) does not say where"):
        targets(tmp_path, "notify:\n  - ntfy: env:A\n  - slack: T0\n")
    with pytest.raises(UsageError, match=r"notify \(line 4\) must be a list of targets"):
        targets(tmp_path, "notify: {slack: env:A}\n")


@pytest.mark.parametrize(
    ("text", "label"),
    [
        ("slack: env:A", "slack (env:A)"),
        ("webhook: https://ops.example.com:8443/tpu", "webhook at ops.example.com"),
        ("email: {to: [a@b.c, d@e.f], from: t@b.c, host: m}", "email to a@b.c, d@e.f"),
        ("command: [say, it]", "command say"),
    ],
)
def test_a_target_is_shown_without_its_secret(text, label):
    assert file_notify.read_target(text).label == label
