"""The paths of the protocol."""

from __future__ import annotations

import re
from typing import NamedTuple
from urllib.parse import unquote

from tpuctl.serving.protocol.protocol_error import (
    ProtocolError,
    bad_request,
    short_text,
    wrong_method,
)

_MODEL = re.compile(r"/v2/models/([^/]+)(?:/versions/([^/]+))?(?:/([^/]+))?")
_METHODS = {"": "GET", "ready": "GET", "infer": "POST"}
_UNSUPPORTED = re.compile(
    r"/v2/(repository|systemsharedmemory|cudasharedmemory|trace|logging)(/.*)?"
)


class ModelPath(NamedTuple):
    """A path below that of a model."""

    name: str
    version: str | None
    verb: str
    """"", "ready" or "infer"."""


def parse_model_path(method: str, target: str) -> ModelPath:
    """Read a path below /v2/models; raises ProtocolError for any other, and for a wrong method."""
    path = target.partition("?")[0]
    found = _MODEL.fullmatch(path)
    if found is None:
        if _UNSUPPORTED.fullmatch(path):
            raise bad_request(f"{path[:80]} is not supported")
        raise ProtocolError(404, f"there is no path {short_text(path)}")
    name, version, verb = found.groups()
    wanted = _METHODS.get(verb or "")
    if wanted is None:
        raise bad_request(f"{short_text(verb)} of a model is not supported")
    if method != wanted and (method, wanted) != ("HEAD", "GET"):
        raise wrong_method(method, wanted)
    return ModelPath(unquote(name), version and unquote(version), verb or "")
