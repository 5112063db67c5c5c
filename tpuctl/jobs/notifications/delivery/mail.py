"""A message by SMTP: one connection, encrypted as the target says."""

import asyncio
import os
import smtplib
import socket
import ssl
from datetime import UTC, datetime
from email.message import EmailMessage
from email.utils import format_datetime

from tpuctl.jobs.notifications.delivery.outcome import NotDeliveredError
from tpuctl.jobs.notifications.messages import NotificationMessage, one_line
from tpuctl.jobs.notifications.shapes import REPEAT_NOTE
from tpuctl.jobs.secrets.job_secrets import redact
from tpuctl.models.notify.notify_spec import MailSecurity, MailSettings
from tpuctl.network_policy import NOTIFICATION_ATTEMPT_S

ID_DOMAIN = "tpuctl.invalid"
"""Of the Message-ID: no host of anybody's."""


def compose(settings: MailSettings, message: NotificationMessage) -> EmailMessage:
    """The mail; its Message-ID is the same however often it is sent."""
    mail = EmailMessage()
    mail["Subject"] = message.title
    mail["From"] = settings.sender
    mail["To"] = ", ".join(settings.to)
    mail["Date"] = format_datetime(datetime.fromtimestamp(message.time_s, UTC))
    mail["Message-ID"] = f"<{message.notification_id}@{ID_DOMAIN}>"
    mail["Auto-Submitted"] = "auto-generated"
    note = f"\n{REPEAT_NOTE}" if message.is_repeat else ""
    mail.set_content(f"{message.title}\n{message.plain_text}{note}\n")
    return mail


async def send(settings: MailSettings, password: str, message: NotificationMessage) -> None:
    """Send a message. Raises NotDeliveredError, which has no password."""
    try:
        async with asyncio.timeout(3 * NOTIFICATION_ATTEMPT_S):
            await asyncio.to_thread(_send, settings, password, compose(settings, message))
    except TimeoutError:
        raise NotDeliveredError("the mail server takes too long") from None
    except smtplib.SMTPException as error:
        raise NotDeliveredError(_cause(error, password), is_final=_is_final(error)) from None
    except (OSError, ValueError) as error:
        raise NotDeliveredError(f"no connection: {_network_cause(error)}") from None


def _send(settings: MailSettings, password: str, mail: EmailMessage) -> None:
    with _connected(settings) as server:
        if settings.security == MailSecurity.STARTTLS:
            server.starttls(context=ssl.create_default_context())
        if settings.user:
            server.login(settings.user, password)
        server.send_message(mail)


def _connected(settings: MailSettings) -> smtplib.SMTP:
    address = settings.host, settings.port
    if settings.security != MailSecurity.TLS:
        return smtplib.SMTP(*address, timeout=NOTIFICATION_ATTEMPT_S)
    encryption = ssl.create_default_context()
    return smtplib.SMTP_SSL(*address, timeout=NOTIFICATION_ATTEMPT_S, context=encryption)


def _cause(error: smtplib.SMTPException, password: str) -> str:
    if isinstance(error, smtplib.SMTPResponseException):
        said = error.smtp_error
        text = said.decode("utf-8", "replace") if isinstance(said, bytes) else str(said)
        return f"SMTP {error.smtp_code}: {one_line(redact(text, [password]))}"
    if isinstance(error, smtplib.SMTPRecipientsRefused):
        code, said = next(iter(error.recipients.values()))
        return f"SMTP {code}: {one_line(said.decode('utf-8', 'replace'))}"
    return one_line(redact(str(error), [password])) or type(error).__name__


def _network_cause(error: Exception) -> str:
    if isinstance(error, ssl.SSLError):
        return error.verify_message if isinstance(error, ssl.SSLCertVerificationError) else "TLS"
    if isinstance(error, socket.gaierror):
        return "its host is not known"
    number = getattr(error, "errno", None)
    return os.strerror(number) if number else type(error).__name__


def _is_final(error: smtplib.SMTPException) -> bool:
    """Whether the server says that it will never take it: 5xx, as RFC 5321 has it."""
    codes = [getattr(error, "smtp_code", 0)]
    if isinstance(error, smtplib.SMTPRecipientsRefused):
        codes = [code for code, _ in error.recipients.values()]
    return all(code >= 500 for code in codes) or isinstance(error, smtplib.SMTPNotSupportedError)
