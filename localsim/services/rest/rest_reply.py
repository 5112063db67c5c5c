"""The form of a REST reply, by `alt`, `prettyPrint` and `fields` of the query."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from aiohttp import web
from google.protobuf import json_format

from localsim.cloud.model.cloud_errors import unimplemented
from localsim.services.net.wire_errors import FieldViolation, MalformedRequestError
from localsim.services.rest.rest_fields import Mask, apply_mask, parse_mask

_ABSENT_FORMS = frozenset({"media", "proto"})
_SAFE = {"X-Content-Type-Options": "nosniff"}


@dataclass(frozen=True, slots=True)
class ReplyFormat:
    """The form of a reply; indented by two and with enums by name unless asked otherwise."""

    pretty: bool = True
    enums_as_numbers: bool = False
    fields: str = ""


def reply_format(query: Mapping[str, str]) -> ReplyFormat:
    """The form that the parameters of a query ask for; raises CloudError."""
    alt, *options = query.get("$alt", query.get("alt", "json")).split(";")
    if alt in _ABSENT_FORMS:
        raise unimplemented(f"alt={alt}")
    if alt != "json":
        raise MalformedRequestError(
            [FieldViolation(f"Invalid value at 'alt' (alt), \"{alt}\"", "alt")]
        )
    return ReplyFormat(
        pretty=query.get("prettyPrint", query.get("$prettyPrint", "true")).lower() != "false",
        enums_as_numbers="enum-encoding=int" in options,
        fields=query.get("fields", query.get("$fields", "")),
    )


def reply_mask(form: ReplyFormat, kind: Any) -> Mask:
    """The mask of `fields` for a message; raises MalformedRequestError for unknown fields."""
    return parse_mask(form.fields, kind.DESCRIPTOR) if form.fields else {}


def message_reply(message: Any, form: ReplyFormat, mask: Mask, pool: Any) -> web.Response:
    """A message as JSON."""
    document = json_format.MessageToDict(
        message, use_integers_for_enums=form.enums_as_numbers, descriptor_pool=pool
    )
    return json_reply(apply_mask(document, mask), form)


def json_reply(document: Any, form: ReplyFormat, status: int = 200) -> web.Response:
    """A JSON document in the form of Google's front end."""
    separators = None if form.pretty else (",", ":")
    text = json.dumps(
        document, indent=2 if form.pretty else None, separators=separators, ensure_ascii=False
    )
    return web.Response(
        status=status,
        body=text.encode(errors="replace") + b"\n" * form.pretty,
        content_type="application/json",
        charset="UTF-8",
        headers=_SAFE,
    )
