"""A message by HTTP: one POST, no redirect, one deadline for all of it."""

import os
import socket

from tpuctl.jobs.notifications.delivery.outcome import NotDeliveredError
from tpuctl.jobs.notifications.messages import one_line
from tpuctl.jobs.notifications.shapes import NotificationRequest, secret_parts
from tpuctl.jobs.secrets.job_secrets import redact
from tpuctl.network_policy import NOTIFICATION_ATTEMPT_S
from tpuctl.retry_after import bounded_pause_s

PASSING = frozenset({408, 425, 429})
"""Statuses below 500 that may be others later."""
ANSWER_BYTES = 200


async def post(request: NotificationRequest) -> None:
    """Send a message. Raises NotDeliveredError, which names neither URL nor host."""
    import aiohttp  # takes its time to load, for a job that may have nobody to tell

    limit = aiohttp.ClientTimeout(total=NOTIFICATION_ATTEMPT_S)
    try:
        async with (
            aiohttp.ClientSession(timeout=limit, trust_env=True) as session,
            session.post(
                request.url, data=request.body, headers=request.headers, allow_redirects=False
            ) as reply,
        ):
            answer = await reply.content.read(ANSWER_BYTES)
            status, retry_after = reply.status, reply.headers.get("Retry-After")
    except TimeoutError:
        raise NotDeliveredError(f"no answer within {NOTIFICATION_ATTEMPT_S:.0f} s") from None
    except (aiohttp.InvalidURL, UnicodeError):
        raise NotDeliveredError("its URL is not one", is_final=True) from None
    except (aiohttp.ClientError, OSError) as error:  # its text has the URL
        raise NotDeliveredError(_cause(error)) from None
    if not 200 <= status < 300:
        shown = redact(answer.decode("utf-8", "replace"), secret_parts(request.url))
        said = f": {one_line(shown)}" if answer else ""
        is_final = status < 500 and status not in PASSING
        raise NotDeliveredError(
            f"HTTP {status}{said}", is_final=is_final, pause_s=bounded_pause_s(retry_after)
        )


def _cause(error: Exception) -> str:
    """What went wrong below HTTP, without the name of the host."""
    cause = getattr(error, "os_error", error)
    if isinstance(cause, socket.gaierror):
        return "no connection: its host is not known"
    number = getattr(cause, "errno", None)
    return f"no connection: {os.strerror(number) if number else type(cause).__name__}"
