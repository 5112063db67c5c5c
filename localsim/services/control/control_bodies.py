"""The JSON bodies of the control port, checked strictly; an error is one line."""

import json
import math
from collections.abc import Mapping
from typing import Any

from aiohttp import web

from localsim.clock import MAX_ADVANCE_S

MOST_BYTES = 64 * 1024


class BodyError(ValueError):
    """The reason why a body is refused; str() is one line."""


async def read_body(request: web.Request, *known: str) -> dict[str, Any]:
    """The object in the body; with `known` keys given it may hold no others.

    Raises BodyError.
    """
    try:
        body = json.loads((await request.read()).decode("utf-8") or "{}")
    except (ValueError, RecursionError):
        raise BodyError("the body must be JSON in UTF-8") from None
    if not isinstance(body, dict):
        raise BodyError("the body must be a JSON object")
    for key in body:
        if known and key not in known:
            raise BodyError(f"unknown key {key[:100]!r}; known: {', '.join(known)}")
    return body


def text_field(body: Mapping[str, Any], key: str) -> str:
    """A required text; raises BodyError."""
    value = body.get(key)
    if not isinstance(value, str) or not value:
        raise BodyError(f"{key} must be a text")
    return value


def seconds_field(body: Mapping[str, Any], key: str) -> float | None:
    """A number of seconds, or None where it is absent; raises BodyError."""
    value = body.get(key)
    if value is None:
        return None
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not 0 <= value <= MAX_ADVANCE_S or math.isnan(value):
        raise BodyError(f"{key} must be a number of seconds from 0 to {MAX_ADVANCE_S:.0f}")
    return float(value)


def choice_field(body: Mapping[str, Any], key: str, *known: str) -> str:
    """One of the known words, by default the first; raises BodyError."""
    value = body.get(key, known[0])
    if value not in known:
        raise BodyError(f"{key} must be {' or '.join(known)}")
    return str(value)


def flag_field(body: Mapping[str, Any], key: str, *, default: bool) -> bool:
    """A boolean, by default `default`; raises BodyError."""
    value = body.get(key, default)
    if not isinstance(value, bool):
        raise BodyError(f"{key} must be true or false")
    return value
