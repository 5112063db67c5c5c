"""One row of the storage service's table: a method of the API, and the requests that call it."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from aiohttp import web

from localsim.cloud.objects.storage_model import not_implemented
from localsim.services.storage.service import Handler, StorageService
from localsim.services.storage.wire.json_requests import StorageCall

_NAME_IN_TEMPLATE = re.compile(r"\{(\w+)\}")


@dataclass(frozen=True, slots=True)
class StorageRoute:
    """A method as the discovery document names it, and who serves it."""

    name: str
    method: str
    pattern: re.Pattern[str]
    handler: Handler

    def match(self, raw_path: str) -> Mapping[str, str] | None:
        """The names in a path, still percent-encoded; None when the path is another method's."""
        found = self.pattern.fullmatch(raw_path)
        return None if found is None else found.groupdict()


def make_route(name: str, method: str, template: str, handler: Handler) -> StorageRoute:
    """A row; `{bucket}` in the template stands for one path segment, which may be empty."""
    pattern = _NAME_IN_TEMPLATE.sub(r"(?P<\1>[^/]*)", template)
    return StorageRoute(name, method, re.compile(pattern), handler)


def make_unsupported_route(name: str, method: str, template: str) -> StorageRoute:
    """A row for what Cloud Storage has and this service has not: it says so."""

    async def refuse(_service: StorageService, _call: StorageCall) -> web.StreamResponse:
        raise not_implemented(name)

    return make_route(name, method, template, refuse)
