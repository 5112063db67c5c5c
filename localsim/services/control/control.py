"""The control port, with which the owner acts on the simulated cloud."""

import hmac
import inspect
import json
import math
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from aiohttp import web

from localsim.clock import MAX_ADVANCE_S
from localsim.rules.cloud import Cloud
from localsim.rules.model.cloud_errors import CloudError, Code
from localsim.rules.nodes.maintenance import MaintenanceAnnouncement
from localsim.rules.scenario import timeline_texts
from localsim.rules.scenario.fault_types import kind_of
from localsim.rules.scenario.scenario_checks import ScenarioError
from localsim.rules.scenario.timeline import EntryProgress
from localsim.rules.scenario.timeline_types import EntryState, FaultBegin
from localsim.workers.isolation.interface import NotPossibleError

MOST_BYTES = 64 * 1024
MOST_REQUESTS = 10_000
MOST_DIGITS = 15
MOST_WAIT_S = 60
_STATUS = {Code.NOT_FOUND: 404, Code.INVALID_ARGUMENT: 400, Code.UNAVAILABLE: 503}


@dataclass(frozen=True, slots=True)
class ControlActions:
    """The actions of the control port; the server supplies them."""

    preempt: Callable[[str, str, float | None], Awaitable[float]]
    """Returns the notice in seconds."""
    advance: Callable[[float], Awaitable[float]]
    now: Callable[[], float]
    reset: Callable[[], Awaitable[None]]
    status: Callable[[], dict[str, Any]]
    act: Callable[[Callable[[Cloud], Any]], Awaitable[Any]]
    """Does something to the cloud, returns what it returned once that is on disk."""
    require_possible: Callable[[str], None]
    """Raises NotPossibleError for a fault that the workers of this simulator cannot suffer."""
    until: Callable[[Callable[[Cloud], bool], float], Awaitable[None]]
    """Returns when the condition is true, or real seconds have passed."""
    settle: Callable[[], Awaitable[None]]
    """Returns when the workers have followed."""
    requests: Callable[[int, int], list[dict[str, Any]]] | None = None
    """The logged requests after that number, so many at most; None: they are not logged."""


def application(
    controls: ControlActions, token: str, middlewares: Iterable[Any]
) -> web.Application:
    """The control port; every request carries `Authorization: Bearer TOKEN`."""
    app = web.Application(
        middlewares=[*middlewares, _authorized(token)], client_max_size=MOST_BYTES
    )
    app.add_routes([_route(controls, *row) for row in _ROUTES])
    return app


_Handler = Callable[[ControlActions, web.Request], Any]
"""Returns a JSON object, or an awaitable of it."""


def _route(controls: ControlActions, verb: str, path: str, handler: _Handler) -> web.RouteDef:
    async def answer(request: web.Request) -> web.Response:
        reply = handler(controls, request)
        return web.json_response(await reply if inspect.isawaitable(reply) else reply)

    return web.route(verb, path, answer)


def _authorized(token: str) -> Any:
    wanted = f"Bearer {token}".encode()

    @web.middleware
    async def check(request: web.Request, handler: Any) -> web.StreamResponse:
        given = request.headers.get("Authorization", "")
        if not hmac.compare_digest(given.encode("utf-8", "surrogateescape"), wanted):
            return _error(401, "the control token is missing or wrong")
        try:
            response: web.StreamResponse = await handler(request)
        except CloudError as error:
            return _error(_STATUS.get(error.code, 409), error.message)
        except NotPossibleError as error:
            return _error(409, str(error))
        except ValueError as error:
            return _error(400, str(error))
        except web.HTTPException as error:
            return _error(error.status, error.reason)
        return response

    return check


async def _advance(controls: ControlActions, request: web.Request) -> dict[str, Any]:
    body = await _read_body(request, "advance_s")
    seconds = _seconds_field(body, "advance_s")
    if seconds is None:
        raise _BodyError("advance_s must be a number of seconds")
    return {"now_s": await controls.advance(seconds)}


async def _preempt(controls: ControlActions, request: web.Request) -> dict[str, Any]:
    body = await _read_body(request, "node", "zone", "notice_s")
    notice_s = _seconds_field(body, "notice_s")
    told_s = await controls.preempt(_text_field(body, "node"), _text_field(body, "zone"), notice_s)
    return {"notice_s": told_s}


async def _reset(controls: ControlActions, _request: web.Request) -> dict[str, Any]:
    await controls.reset()
    return {}


async def _faults(controls: ControlActions, _request: web.Request) -> dict[str, Any]:
    standing = await controls.act(lambda cloud: cloud.faults())
    rows = [{"fault": on.text, "kind": kind_of(on.fault), "met": on.met} for on in standing]
    return {"faults": rows}


async def _add_fault(controls: ControlActions, request: web.Request) -> dict[str, Any]:
    text = _text_field(await _read_body(request, "fault"), "fault")
    controls.require_possible(text)
    await controls.act(lambda cloud: cloud.add_fault(text))
    await controls.settle()
    return await _faults(controls, request)


async def _clear_faults(controls: ControlActions, request: web.Request) -> dict[str, Any]:
    await controls.act(lambda cloud: cloud.clear_faults())
    await controls.settle()
    return await _faults(controls, request)


async def _scenario(controls: ControlActions, _request: web.Request) -> dict[str, Any]:
    settings: dict[str, Any] = await controls.act(lambda cloud: cloud.scenario.settings())
    return settings


async def _change_scenario(controls: ControlActions, request: web.Request) -> dict[str, Any]:
    settings = await _read_body(request)
    faults = settings.get("faults")
    for fault in faults if isinstance(faults, list) else []:
        if isinstance(fault, str):  # any other value is refused elsewhere
            controls.require_possible(fault)
    if isinstance(settings.get("timeline"), list):
        _require_possible_timeline(controls, settings["timeline"])
    await controls.act(lambda cloud: cloud.change_scenario(settings))
    await controls.settle()
    return await _scenario(controls, request)


async def _announce_maintenance(controls: ControlActions, request: web.Request) -> dict[str, Any]:
    keys = ("node", "zone", "starts_in_s", "window_s", "type", "can_reschedule")
    body = await _read_body(request, *keys)
    node, zone = _text_field(body, "node"), _text_field(body, "zone")
    times = {key: _seconds_field(body, key) for key in ("starts_in_s", "window_s")}
    announcement = MaintenanceAnnouncement(
        type=_choice_field(body, "type", "SCHEDULED", "UNSCHEDULED"),
        can_reschedule=_flag_field(body, "can_reschedule", default=True),
        **{key: time_s for key, time_s in times.items() if time_s is not None},
    )

    def announce(cloud: Cloud) -> None:
        name = f"projects/{cloud.project}/locations/{zone}/nodes/{node}"
        cloud.announce_maintenance(name, announcement)

    await controls.act(announce)
    return {}


async def _quota(controls: ControlActions, _request: web.Request) -> dict[str, Any]:
    return {"quotas": [asdict(each) for each in await controls.act(lambda cloud: cloud.quotas())]}


async def _timeline(controls: ControlActions, request: web.Request) -> dict[str, Any]:
    after = _number_parameter(request, "after")
    if after is not None:
        wait_s = min(_number_parameter(request, "wait_s") or 0, MOST_WAIT_S)
        await controls.until(lambda cloud: _done(cloud) > after, wait_s)
    entries = await controls.act(lambda cloud: cloud.timeline())
    return {"timeline": [_entry(progress) for progress in entries]}


async def _add_timeline(controls: ControlActions, request: web.Request) -> dict[str, Any]:
    entries = (await _read_body(request, "entries")).get("entries")
    if not isinstance(entries, list):
        raise _BodyError("entries must be a list")
    try:
        _require_possible_timeline(controls, entries)
        await controls.act(lambda cloud: cloud.add_timeline(entries))
    except ScenarioError as error:
        raise _BodyError(str(error).removeprefix("scenario: ")) from None
    return await _timeline(controls, request)


def _require_possible_timeline(controls: ControlActions, entries: list[Any]) -> None:
    """Raise NotPossibleError for a fault of theirs that this simulator cannot bring about."""
    for entry in timeline_texts.parse(entries):
        for action in entry.actions:
            if isinstance(action, FaultBegin):
                controls.require_possible(action.fault)


async def _incidents(controls: ControlActions, _request: web.Request) -> dict[str, Any]:
    def read(cloud: Cloud) -> dict[str, Any]:
        return {
            "began_s": cloud.scenario_start_s,
            "faults": list(cloud.faults_at_start),
            "scenario": cloud.scenario.changed_settings(),
            "incidents": [asdict(row) for row in cloud.incidents()],
        }

    found: dict[str, Any] = await controls.act(read)
    return found


def _done(cloud: Cloud) -> int:
    return sum(progress.state is EntryState.DONE for progress in cloud.timeline())


def _entry(progress: EntryProgress) -> dict[str, Any]:
    (written,) = timeline_texts.as_written([progress.entry])
    return {
        **written,
        "state": progress.state,
        "count": progress.count,
        "fired_s": progress.fired_s,
        "request": progress.request,
        "problem": progress.problem,
    }


def _requests(controls: ControlActions, request: web.Request) -> dict[str, Any]:
    if controls.requests is None:
        raise _BodyError("requests are not logged; start the simulator with --log-requests")
    after, limit = (_number_parameter(request, name) for name in ("after", "limit"))
    return {"requests": controls.requests(after or 0, MOST_REQUESTS if limit is None else limit)}


_ROUTES: tuple[tuple[str, str, _Handler], ...] = (
    ("GET", "/status", lambda controls, _: controls.status()),
    ("GET", "/clock", lambda controls, _: {"now_s": controls.now()}),
    ("POST", "/clock", _advance),
    ("POST", "/preempt", _preempt),
    ("POST", "/reset", _reset),
    ("GET", "/faults", _faults),
    ("POST", "/faults", _add_fault),
    ("DELETE", "/faults", _clear_faults),
    ("GET", "/scenario", _scenario),
    ("PATCH", "/scenario", _change_scenario),
    ("POST", "/maintenance", _announce_maintenance),
    ("GET", "/quota", _quota),
    ("GET", "/requests", _requests),
    ("GET", "/incidents", _incidents),
    ("GET", "/timeline", _timeline),
    ("POST", "/timeline", _add_timeline),
)
"""Verb, path, what answers with a JSON object."""


def _error(status: int, message: str) -> web.Response:
    return web.json_response({"error": message}, status=status)


class _BodyError(ValueError):
    """The reason why a body is refused; str() is one line."""


async def _read_body(request: web.Request, *known: str) -> dict[str, Any]:
    """The object in the body; with `known` keys given it may hold no others.

    Raises _BodyError.
    """
    try:
        body = json.loads((await request.read()).decode("utf-8") or "{}")
    except (ValueError, RecursionError):
        raise _BodyError("the body must be JSON in UTF-8") from None
    if not isinstance(body, dict):
        raise _BodyError("the body must be a JSON object")
    for key in body:
        if known and key not in known:
            raise _BodyError(f"unknown key {key[:100]!r}; known: {', '.join(known)}")
    return body


def _text_field(body: Mapping[str, Any], key: str) -> str:
    """A required text; raises _BodyError."""
    value = body.get(key)
    if not isinstance(value, str) or not value:
        raise _BodyError(f"{key} must be a text")
    return value


def _seconds_field(body: Mapping[str, Any], key: str) -> float | None:
    """A number of seconds, or None where it is absent; raises _BodyError."""
    value = body.get(key)
    if value is None:
        return None
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not 0 <= value <= MAX_ADVANCE_S or math.isnan(value):
        raise _BodyError(f"{key} must be a number of seconds from 0 to {MAX_ADVANCE_S:.0f}")
    return float(value)


def _number_parameter(request: web.Request, name: str) -> int | None:
    """A whole number in the query, or None where it is absent; raises _BodyError."""
    text = request.query.get(name)
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= MOST_DIGITS):
        raise _BodyError(f"{name} must be a whole number, not {text[:100]!r}")
    return int(text)


def _choice_field(body: Mapping[str, Any], key: str, *known: str) -> str:
    """One of the known words, by default the first; raises _BodyError."""
    value = body.get(key, known[0])
    if value not in known:
        raise _BodyError(f"{key} must be {' or '.join(known)}")
    return str(value)


def _flag_field(body: Mapping[str, Any], key: str, *, default: bool) -> bool:
    """A boolean, by default `default`; raises _BodyError."""
    value = body.get(key, default)
    if not isinstance(value, bool):
        raise _BodyError(f"{key} must be true or false")
    return value
