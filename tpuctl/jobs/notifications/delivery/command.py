"""A message by a command of the submitter's: text on its standard input, facts in variables."""

import asyncio
import os
import signal
from collections.abc import Mapping, Sequence
from contextlib import suppress

from tpuctl.jobs.notifications.delivery.outcome import NotDeliveredError
from tpuctl.jobs.notifications.messages import NotificationMessage
from tpuctl.network_policy import NOTIFICATION_COMMAND_S


def variables(message: NotificationMessage) -> Mapping[str, str]:
    """What the command finds in its environment besides what the supervisor has. Public."""
    return {
        "TPUCTL_NOTIFICATION_ID": message.notification_id,
        "TPUCTL_NOTIFICATION_EVENT": message.event,
        "TPUCTL_NOTIFICATION_TITLE": message.title,
        "TPUCTL_NOTIFICATION_JOB": message.job_id,
        "TPUCTL_NOTIFICATION_REPEAT": "1" if message.is_repeat else "0",
    }


async def run(argv: Sequence[str], message: NotificationMessage) -> None:
    """Run the command to its end, or end it after a minute. Raises NotDeliveredError."""
    try:
        process = await asyncio.create_subprocess_exec(
            *argv,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
            env={**os.environ, **variables(message)},
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else str(error)
        raise NotDeliveredError(f"cannot run {argv[0]}: {why}", is_final=True) from None
    text = f"{message.title}\n{message.plain_text}\n".encode()
    try:
        async with asyncio.timeout(NOTIFICATION_COMMAND_S):
            await process.communicate(text)
    except TimeoutError:
        raise NotDeliveredError(f"{argv[0]} ran for {NOTIFICATION_COMMAND_S:.0f} s") from None
    finally:
        if process.returncode is None:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
    if process.returncode:
        raise NotDeliveredError(f"{argv[0]} ended with status {process.returncode}")
