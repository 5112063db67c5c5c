"""Mail, to a server on loopback: encrypted, with a login, and without a word of the password."""

import asyncio

import pytest

from localsim.server.certificates import ensure_certificates
from tpuctl.jobs.notifications.delivery import mail
from tpuctl.jobs.notifications.delivery.outcome import NotDeliveredError
from tpuctl.models.notify.notify_spec import MailSecurity, MailSettings
from unit.jobs.notifications.receivers import mailbox
from unit.jobs.notifications.test_shapes import message

PASSWORD = "pass-word-1"


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    return ensure_certificates(tmp_path_factory.mktemp("tls") / "google")


def settings(port: int, security=MailSecurity.NONE, user="tpu") -> MailSettings:
    return MailSettings(
        ("ada@example.com", "bob@example.com"), "t@example.com", "127.0.0.1", port, security,
        user, "env:P" if user else "",
    )  # fmt: skip


def send(found: MailSettings, password: str = PASSWORD) -> None:
    asyncio.run(mail.send(found, password, message()))


def refusal(found: MailSettings, password: str = PASSWORD) -> NotDeliveredError:
    with pytest.raises(NotDeliveredError) as raised:
        send(found, password)
    return raised.value


def test_a_mail_goes_over_starttls_with_a_login_to_everybody(certificates, monkeypatch):
    monkeypatch.setenv("SSL_CERT_FILE", str(certificates.ca))
    with mailbox(login=("tpu", PASSWORD), encryption=certificates.server_context()) as box:
        send(settings(box.port, MailSecurity.STARTTLS))
    assert (box.was_encrypted, box.recipients) == ([True], [["ada@example.com", "bob@example.com"]])
    assert box.mails[0]["Subject"].startswith("digits-a1b2c3 failed: ")
    assert "ValueError: <nan> & more" in box.mails[0].get_content()


def test_a_server_that_nobody_vouches_for_gets_no_password(certificates):
    with mailbox(login=("tpu", PASSWORD), encryption=certificates.server_context()) as box:
        error = refusal(settings(box.port, MailSecurity.STARTTLS))
    assert (str(error), error.is_final, box.mails) == (
        "no connection: unable to get local issuer certificate", False, [],
    )  # fmt: skip


def test_a_server_without_encryption_gets_no_password():
    with mailbox(login=("tpu", PASSWORD)) as box:
        error = refusal(settings(box.port, MailSecurity.STARTTLS))
    assert error.is_final
    assert str(error) == "STARTTLS extension not supported by server."


def test_a_wrong_password_is_for_good_and_not_shown():
    with mailbox(login=("tpu", "another")) as box:
        error = refusal(settings(box.port))
    assert (str(error), error.is_final) == ("SMTP 535: 5.7.8 bad password ***", True)


@pytest.mark.parametrize(
    ("answer", "is_final"), [("450 mailbox busy", False), ("550 no such user", True)]
)
def test_who_may_take_it_later_is_asked_again(answer, is_final):
    with mailbox(refusal=answer) as box:
        error = refusal(settings(box.port, user=""))
    assert (str(error), error.is_final) == (f"SMTP {answer.replace(' ', ': ', 1)}", is_final)


def test_a_server_that_is_away_may_be_there_later():
    error = refusal(settings(1, user=""))
    assert (str(error), error.is_final) == ("no connection: Connection refused", False)
