"""One row of the storage service's table: a method of the API, and the requests that call it."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from aiohttp import web

from localsim.cloud.objects.model import not_implemented
from localsim.services.storage.service import Handler, Service
from localsim.services.storage.wire.requests import Call

_NAME_IN_TEMPLATE = re.compile(r"\{(\w+)\}")


@dataclass(frozen=True, slots=True)
class Route:
    """A method as the discovery document names it, and who serves it."""

    name: str
    method: str
    pattern: re.Pattern[str]
    handler: Handler

    def match(self, raw_path: str) -> Mapping[str, str] | None:
        """The names in a path, still percent-encoded; None when the path is another method's."""
        found = self.pattern.fullmatch(raw_path)
        return None if found is None else found.groupdict()


def route(name: str, method: str, template: str, handler: Handler) -> Route:
    """A row; `{bucket}` in the template stands for one path segment, which may be empty."""
    pattern = _NAME_IN_TEMPLATE.sub(r"(?P<\1>[^/]*)", template)
    return Route(name, method, re.compile(pattern), handler)


def absent(name: str, method: str, template: str) -> Route:
    """A row for what Cloud Storage has and this service has not: it says so."""

    async def refuse(_service: Service, _call: Call) -> web.StreamResponse:
        raise not_implemented(name)

    return route(name, method, template, refuse)
