"""Secret Manager: the value of one secret, read with the context's own credentials."""

import base64
from urllib.parse import quote

import google_crc32c

from tpuctl.api.tpu.rest import Reply, RestApi
from tpuctl.errors import (
    IntegrityError,
    NotFoundError,
    PermissionDeniedError,
    TpuctlError,
    TransientError,
)

SCHEME = "sm://"
ERRORS: dict[int, type[TpuctlError]] = {403: PermissionDeniedError, 404: NotFoundError}


def secret_value(rest: RestApi, reference: str) -> str:
    """The value at `sm://projects/P/secrets/S[/versions/V]`, the newest without a version.

    Raises PermissionDeniedError, NotFoundError, IntegrityError, TransientError, and what tokens
    raise; no error has the value.
    """
    name = reference.removeprefix(SCHEME)
    if "/versions/" not in name:
        name += "/versions/latest"
    try:
        reply = rest.request("GET", f"/v1/{quote(name)}:access")
    except OSError as error:
        raise TransientError(f"{reference} cannot be read: {type(error).__name__}") from None
    if reply.status != 200:
        kind = ERRORS.get(reply.status, TransientError)
        raise kind(f"{reference} cannot be read: HTTP {reply.status}")
    return _text(reference, reply)


def _text(reference: str, reply: Reply) -> str:
    payload = reply.document.get("payload") or {}
    data = base64.b64decode(payload.get("data", ""))
    told = payload.get("dataCrc32c")
    if told is not None and int(told) != google_crc32c.value(data):
        raise IntegrityError(f"{reference}: the bytes received are not the bytes stored")
    text = data.decode("utf-8", "replace")
    if "\ufffd" in text:
        raise IntegrityError(f"{reference} is not UTF-8 text")
    return text.strip()
