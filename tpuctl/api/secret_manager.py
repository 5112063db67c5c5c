"""Secret Manager: the value of one secret, read with the context's own credentials."""

import base64
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

import google_crc32c

from tpuctl.api.answers import ask, parse_answer
from tpuctl.api.tpu.rest import RestApi
from tpuctl.errors import IntegrityError

SCHEME = "sm://"


def secret_value(rest: RestApi, reference: str) -> str:
    """The value at `sm://projects/P/secrets/S[/versions/V]`, the newest without a version.

    Raises IntegrityError, what `ask` raises and what tokens raise; no error has the value.
    """
    name = reference.removeprefix(SCHEME)
    if "/versions/" not in name:
        name += "/versions/latest"
    return _text(reference, ask(rest, "GET", f"/v1/{quote(name)}:access", reference))


def _text(reference: str, answer: Mapping[str, Any]) -> str:
    with parse_answer(reference):
        payload = answer.get("payload", {})
        data = base64.b64decode(payload.get("data", ""))
        told = payload.get("dataCrc32c")
        is_whole = told is None or int(told) == google_crc32c.value(data)
    if not is_whole:
        raise IntegrityError(f"{reference}: the bytes received are not the bytes stored")
    text = data.decode("utf-8", "replace")
    if "\ufffd" in text:
        raise IntegrityError(f"{reference} is not UTF-8 text")
    return text.strip()
