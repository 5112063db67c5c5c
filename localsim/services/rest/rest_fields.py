"""Partial responses: `fields=name,nodes/state,nodes(id,labels)`, as on every Google API.

A dot does as well as a slash: `nodes.state`.
"""

import re
from collections.abc import Mapping
from typing import Any

from google.protobuf.descriptor import Descriptor, FieldDescriptor

from localsim.services.net.wire_errors import FieldViolation, MalformedRequestError

Mask = Mapping[str, Any]
"""Field -> mask of what is below it; an empty mask is everything."""

_TOKEN = re.compile(r"[^,/().\s]+|[,/().]")
_ANY = "*"
_MOST_DEEP = 50


def parse_mask(text: str, response: Descriptor) -> Mask:
    """The mask of a `fields` parameter for a response; raises MalformedRequestError."""
    tokens = ["/" if token == "." else token for token in _TOKEN.findall(text)]
    mask = parse_selection(tokens)
    if tokens or not mask:
        raise _refused(text)
    return _checked(mask, response, "")


def apply_mask(document: Any, mask: Mask) -> Any:
    """The part of a JSON document that a mask selects."""
    if not mask:
        return document
    if isinstance(document, list):
        return [apply_mask(item, mask) for item in document if isinstance(item, Mapping)]
    chosen = {key: _merged(mask.get(key), mask.get(_ANY)) for key in document}
    return {
        key: apply_mask(document[key], below)
        for key, below in chosen.items()
        if below is not None and (not below or isinstance(document[key], Mapping | list))
    }


def parse_selection(tokens: list[str], depth: int = 0) -> dict[str, Any]:
    """Parse `a,b/c,d(e,f)` from the tokens; what it does not understand is left in them."""
    mask: dict[str, Any] = {}
    while tokens and tokens[0] not in ",/()" and depth < _MOST_DEEP:
        _put(mask, tokens, depth)
        if not (tokens and tokens[0] == ","):
            break
        if len(tokens) > 1:
            tokens.pop(0)
    return mask


def _put(mask: dict[str, Any], tokens: list[str], depth: int) -> None:
    name = tokens.pop(0)
    below: dict[str, Any] = {}
    if depth >= _MOST_DEEP:
        return  # what follows is left over, so refused
    if tokens[:1] == ["/"] and len(tokens) > 1 and tokens[1] not in ",/()":
        tokens.pop(0)
        _put(below, tokens, depth + 1)
    elif tokens[:1] == ["("]:
        opening = tokens.pop(0)
        below = parse_selection(tokens, depth + 1)
        if not below or tokens[:1] != [")"]:
            tokens.insert(0, opening)  # left over too
        else:
            tokens.pop(0)
    mask[name] = _merged(mask.get(name), below)


def _merged(one: Any, other: Any) -> Any:
    """The union of two masks; None is not a mask, an empty one selects everything."""
    if one is None or other is None:
        return other if one is None else one
    if not one or not other:
        return {}
    return {key: _merged(one.get(key), other.get(key)) for key in {**one, **other}}


def _checked(mask: Mask, message: Descriptor, above: str) -> Mask:
    """The mask with JSON names; what is within a map or an Any is not checked."""
    if message.full_name.startswith("google.protobuf.") or message.GetOptions().map_entry:
        return mask
    fields: dict[str, FieldDescriptor] = {}
    for field in message.fields:
        fields[field.json_name] = fields[field.name] = field
    checked = {}
    for name, below in mask.items():
        path, known = f"{above}{name}", fields.get(name)
        if name == _ANY:
            checked[name] = below
        elif known is None or (below and known.message_type is None):
            raise _refused(path)
        else:
            inner = known.message_type
            checked[known.json_name] = _checked(below, inner, f"{path}.") if below else below
    return checked


def _refused(path: str) -> MalformedRequestError:
    sentence = f"Error expanding 'fields' parameter. Cannot find matching fields for path '{path}'."
    message = "Request contains an invalid argument."
    return MalformedRequestError([FieldViolation(sentence, path)], message)
