"""The control port, with which the owner acts on the simulated cloud."""

import hmac
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import asdict, dataclass
from typing import Any

from aiohttp import web

from localsim.cloud.cloud import Cloud
from localsim.cloud.model.cloud_errors import CloudError, Code
from localsim.cloud.nodes.maintenance import MaintenanceAnnouncement
from localsim.cloud.scenario.fault_types import kind_of
from localsim.services.control import control_bodies as bodies
from localsim.workers.isolation.interface import NotPossibleError

_STATUS = {Code.NOT_FOUND: 404, Code.INVALID_ARGUMENT: 400, Code.UNAVAILABLE: 503}


@dataclass(frozen=True, slots=True)
class ControlActions:
    """The actions of the control port; the server supplies them."""

    preempt: Callable[[str, str, float | None], Awaitable[None]]
    advance: Callable[[float], Awaitable[float]]
    now: Callable[[], float]
    reset: Callable[[], Awaitable[None]]
    status: Callable[[], dict[str, Any]]
    act: Callable[[Callable[[Cloud], Any]], Awaitable[Any]]
    """Does something to the cloud, returns what it returned once that is on disk."""
    require_possible: Callable[[str], None]
    """Raises NotPossibleError for a fault that the workers of this simulator cannot suffer."""
    settle: Callable[[], Awaitable[None]]
    """Returns when the workers have followed."""


def application(
    controls: ControlActions, token: str, middlewares: Iterable[Any]
) -> web.Application:
    """The control port; every request carries `Authorization: Bearer TOKEN`."""
    app = web.Application(
        middlewares=[*middlewares, _authorized(token)], client_max_size=bodies.MOST_BYTES
    )
    app.add_routes([_route(controls, *row) for row in _ROUTES])
    return app


Handler = Callable[[ControlActions, web.Request], Awaitable[dict[str, Any]]]


def _route(controls: ControlActions, verb: str, path: str, handler: Handler) -> web.RouteDef:
    async def answer(request: web.Request) -> web.Response:
        return web.json_response(await handler(controls, request))

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


async def _status(controls: ControlActions, _request: web.Request) -> dict[str, Any]:
    return controls.status()


async def _clock(controls: ControlActions, _request: web.Request) -> dict[str, Any]:
    return {"now_s": controls.now()}


async def _advance(controls: ControlActions, request: web.Request) -> dict[str, Any]:
    body = await bodies.read_body(request, "advance_s")
    seconds = bodies.seconds_field(body, "advance_s")
    if seconds is None:
        raise bodies.BodyError("advance_s must be a number of seconds")
    return {"now_s": await controls.advance(seconds)}


async def _preempt(controls: ControlActions, request: web.Request) -> dict[str, Any]:
    body = await bodies.read_body(request, "node", "zone", "notice_s")
    notice_s = bodies.seconds_field(body, "notice_s")
    await controls.preempt(
        bodies.text_field(body, "node"), bodies.text_field(body, "zone"), notice_s
    )
    return {}


async def _reset(controls: ControlActions, _request: web.Request) -> dict[str, Any]:
    await controls.reset()
    return {}


async def _faults(controls: ControlActions, _request: web.Request) -> dict[str, Any]:
    standing = await controls.act(lambda cloud: cloud.faults())
    rows = [{"fault": on.text, "kind": kind_of(on.fault), "met": on.met} for on in standing]
    return {"faults": rows}


async def _add_fault(controls: ControlActions, request: web.Request) -> dict[str, Any]:
    text = bodies.text_field(await bodies.read_body(request, "fault"), "fault")
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
    settings = await bodies.read_body(request)
    for fault in _texts(settings.get("faults")):
        controls.require_possible(fault)
    await controls.act(lambda cloud: cloud.change_scenario(settings))
    await controls.settle()
    return await _scenario(controls, request)


def _texts(value: Any) -> list[str]:
    """The texts of a list; another value is refused elsewhere."""
    found = value if isinstance(value, list) else []
    return [each for each in found if isinstance(each, str)]


async def _announce_maintenance(controls: ControlActions, request: web.Request) -> dict[str, Any]:
    keys = ("node", "zone", "starts_in_s", "window_s", "type", "can_reschedule")
    body = await bodies.read_body(request, *keys)
    node, zone = bodies.text_field(body, "node"), bodies.text_field(body, "zone")
    times = {key: bodies.seconds_field(body, key) for key in ("starts_in_s", "window_s")}
    announcement = MaintenanceAnnouncement(
        type=bodies.choice_field(body, "type", "SCHEDULED", "UNSCHEDULED"),
        can_reschedule=bodies.flag_field(body, "can_reschedule", default=True),
        **{key: time_s for key, time_s in times.items() if time_s is not None},
    )

    def announce(cloud: Cloud) -> None:
        name = f"projects/{cloud.project}/locations/{zone}/nodes/{node}"
        cloud.announce_maintenance(name, announcement)

    await controls.act(announce)
    return {}


async def _quota(controls: ControlActions, _request: web.Request) -> dict[str, Any]:
    return {"quotas": [asdict(each) for each in await controls.act(lambda cloud: cloud.quotas())]}


_ROUTES: tuple[tuple[str, str, Handler], ...] = (
    ("GET", "/status", _status),
    ("GET", "/clock", _clock),
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
)
"""Verb, path, what answers with a JSON object."""


def _error(status: int, message: str) -> web.Response:
    return web.json_response({"error": message}, status=status)
