"""The resource `/retry_test`: failures that a client asks for, as in Google's test bench."""

import json
import secrets
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any

from aiohttp import web

from localsim.rules.objects.storage_model import StorageError, invalid
from localsim.rules.scenario.fault_types import ArmedStorageFault
from localsim.rules.scenario.storage_fault_texts import (
    BENCH_NAMES,
    METHODS,
    parse_instruction,
)
from localsim.services.storage.wire.json_errors import check_json_type, error_response

HEADER = "x-retry-test-id"
MOST_TESTS = 1000
"""Older ones are forgotten."""
MOST_INSTRUCTIONS = 1000


class RetryTests:
    """The retry tests of one server, in memory only."""

    def __init__(self) -> None:
        self._left: dict[str, Mapping[str, deque[str]]] = {}
        """By test, the instructions that are left, by method, the next one first."""
        self._completed: set[str] = set()

    def insert(self, body: bytes) -> dict[str, Any]:
        """Add a test; raises StorageError 400 for unknown methods or instructions."""
        instructions = _instructions(body)
        test_id = secrets.token_hex(16)
        self._left[test_id] = {method: deque(texts) for method, texts in instructions.items()}
        while len(self._left) > MOST_TESTS:
            self.delete(next(iter(self._left)))
        return self.get(test_id)

    def get(self, test_id: str) -> dict[str, Any]:
        """The resource of a test, as the test bench shows it; raises StorageError 404."""
        instructions = self._instructions_of(test_id)
        return {
            "id": test_id,
            "instructions": {method: list(left) for method, left in instructions.items()},
            "transport": "HTTP",
            "completed": test_id in self._completed,
        }

    def resources(self) -> list[dict[str, Any]]:
        """The resources of all tests, the oldest first."""
        return list(map(self.get, self._left))

    def delete(self, test_id: str) -> None:
        """Delete a test; raises StorageError 404."""
        self._instructions_of(test_id)
        del self._left[test_id]
        self._completed.discard(test_id)

    def armed(self, test_id: str, method: str) -> list[ArmedStorageFault]:
        """The next instruction for a call of the method, if any; raises StorageError 404."""
        instructions = self._instructions_of(test_id)
        left = instructions.get(method) or instructions.get(BENCH_NAMES.get(method, method))
        effect = parse_instruction(left[0]) if left else None
        if not left or effect is None:
            return []
        return [ArmedStorageFault(effect, partial(self._dequeue, test_id, left, len(left)))]

    def _dequeue(self, test_id: str, left: deque[str], length: int) -> bool:
        if len(left) != length:  # another request has met it
            return False
        left.popleft()
        if test_id in self._left and not any(self._left[test_id].values()):
            self._completed.add(test_id)
        return True

    def _instructions_of(self, test_id: str) -> Mapping[str, deque[str]]:
        if test_id not in self._left:
            raise StorageError(404, "notFound", f"Retry Test {test_id[:100]} does not exist.")
        return self._left[test_id]


def routes(tests: RetryTests) -> list[web.RouteDef]:
    """The resource's routes; behind TLS, where Google is emulated to the letter, there is none."""
    return [_route(tests, *row) for row in _ROUTES]


_Handler = Callable[[RetryTests, web.Request], Awaitable[web.Response]]


def _route(tests: RetryTests, verb: str, path: str, handler: _Handler) -> web.RouteDef:
    async def answer(request: web.Request) -> web.Response:
        try:
            if request.secure:
                raise StorageError(404, "notFound", "Not Found")
            return await handler(tests, request)
        except StorageError as error:
            return error_response(error)

    return web.route(verb, path, answer)


async def _insert(tests: RetryTests, request: web.Request) -> web.Response:
    check_json_type(request)
    return web.json_response(tests.insert(await request.read()))


async def _list(tests: RetryTests, _request: web.Request) -> web.Response:
    return web.json_response({"retry_test": tests.resources()})


async def _get(tests: RetryTests, request: web.Request) -> web.Response:
    return web.json_response(tests.get(request.match_info["id"]))


async def _delete(tests: RetryTests, request: web.Request) -> web.Response:
    test_id = request.match_info["id"]
    tests.delete(test_id)
    return web.Response(text=f"Deleted {test_id}")


_ROUTES: tuple[tuple[str, str, _Handler], ...] = (
    ("POST", "/retry_test", _insert),
    ("GET", "/retry_tests", _list),
    ("GET", "/retry_test/{id}", _get),
    ("DELETE", "/retry_test/{id}", _delete),
)


def _instructions(body: bytes) -> dict[str, list[str]]:
    try:
        document = json.loads(body)
    except (ValueError, RecursionError):
        raise invalid("The retry test must be JSON.") from None
    given = document.get("instructions") if isinstance(document, dict) else None
    if not isinstance(given, dict) or not given:
        raise invalid("instructions is not defined")
    transport = document.get("transport", "HTTP")
    if not isinstance(transport, str) or transport.upper() != "HTTP":
        raise invalid(f"The requested transport {transport!r} is not served; HTTP is.")
    if sum(len(texts) if isinstance(texts, list) else 0 for texts in given.values()) > (
        MOST_INSTRUCTIONS
    ):
        raise invalid(f"A retry test has at most {MOST_INSTRUCTIONS} instructions.")
    for method, texts in given.items():
        _check(method, texts)
    return given


def _check(method: str, texts: Any) -> None:
    if method not in METHODS and method not in BENCH_NAMES.values():
        raise invalid(f"The requested method {method!r} is not served, or takes no faults.")
    if not isinstance(texts, list):
        raise invalid(f"The instructions for {method} must be a list.")
    for text in texts:
        if not isinstance(text, str) or parse_instruction(text) is None:
            raise invalid(f"The fault injection request {text!r} is not known over HTTP.")
