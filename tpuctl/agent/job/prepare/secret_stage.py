"""The stage `secrets`: values of Secret Manager, as the worker's own account. Python 3.8."""

from __future__ import annotations

import base64
import http.client
import json
import os
import sys
import time
from urllib.parse import quote, urlsplit

from tpuctl.agent.data import crc32c
from tpuctl.agent.data import range_reader as cloud
from tpuctl.agent.job.state import rundir
from tpuctl.retry_after import bounded_pause_s, pause_asked_by

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

SERVICE = "https://secretmanager.googleapis.com/"
REDIRECTION = "CLOUDSDK_API_ENDPOINT_OVERRIDES_SECRETMANAGER"
TIMEOUT_S = 30.0
TRIES = 18
"""Two minutes."""
SCHEME = "sm://"


class SecretError(Exception):
    """A secret cannot be read; str() is the reason."""


def print_secrets(directory: str) -> int:
    """Print the values as one JSON object, to be read by the agent alone.

    1 when one of them is refused, 75 when the service does not answer.
    """
    found = {}
    token = cloud.Token()
    for name, reference in sorted(rundir.config(directory)["secrets"].items()):
        try:
            found[name] = secret_value(reference, token)
        except (SecretError, cloud.UnreachedError) as error:
            sys.stderr.write(f"tpuctl: cannot read the secret {name} ({reference}): {error}\n")
            return rundir.UNREACHED if isinstance(error, cloud.UnreachedError) else 1
    sys.stdout.write(json.dumps(found))
    return 0


def secret_value(reference: str, token: cloud.Token) -> str:
    """Read `sm://projects/P/secrets/S[/versions/V]`; raises SecretError, cloud.UnreachedError."""
    name = reference[len(SCHEME) :]
    if "/versions/" not in name:
        name += "/versions/latest"
    payload = access_secret(quote(name), token)["payload"]
    data = base64.b64decode(payload.get("data", ""))
    told = payload.get("dataCrc32c")
    if told is not None and int(told) != crc32c.extend(0, data):
        raise SecretError("the bytes received are not the bytes stored")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        raise SecretError("it is not text") from None


def access_secret(name: str, token: cloud.Token) -> dict[str, Any]:
    """Ask for a secret, TRIES times; raises SecretError, cloud.UnreachedError."""
    last = ""
    for attempt in range(TRIES):
        try:
            return request_secret(name, token)
        except (OSError, ValueError, http.client.HTTPException, cloud.TransientFailure) as error:
            last = str(error) or type(error).__name__
            asked_s = pause_asked_by(error)
        time.sleep(asked_s + min(8.0, 0.25 * 2**attempt))
    raise cloud.UnreachedError(last)


def request_secret(name: str, token: cloud.Token) -> dict[str, Any]:
    """Send one request; raises SecretError, and for what may pass TransientFailure, OSError,
    HTTPException or ValueError.
    """
    service = os.environ.get(REDIRECTION) or SERVICE
    path = urlsplit(service).path.rstrip("/")
    connection = cloud.connect(service, TIMEOUT_S)
    try:
        connection.request("GET", f"{path}/v1/{name}:access", headers=token.headers())
        with connection.getresponse() as reply:
            if reply.status == 200:
                found: dict[str, Any] = json.loads(reply.read())
                return found
            text = cloud.reply_message(reply)
            if reply.status not in cloud.TRANSIENT_STATUSES:
                raise SecretError(text)
            asked_s = bounded_pause_s(reply.getheader("Retry-After"))
            raise cloud.TransientFailure(text, asked_s)
    finally:
        connection.close()
