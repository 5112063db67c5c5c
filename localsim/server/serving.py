"""One simulated cloud, from the taking of its directory to its end."""

import asyncio
import json
import resource
import signal
import sys
from collections.abc import Callable
from contextlib import AsyncExitStack, suppress
from dataclasses import asdict
from typing import Any

from localsim import service_ports, state_directory
from localsim.cloud.db.database import open_database
from localsim.cloud.model.cloud_errors import CloudError
from localsim.cloud.scenario.scenario import Scenario
from localsim.server import endpoints, isolation_choice, listeners, state_errors
from localsim.server.components import (
    BUCKET,
    PROJECT,
    ZONE,
    Components,
    build_components,
    requested_scenario,
)
from localsim.server.settings import Settings
from localsim.service_ports import ServeError
from localsim.state_directory import StateDirectory, StateDirectoryError
from localsim.workers.isolation.interface import Isolation

PORT_TRIES = 3
"""Free ports can be taken by others before they are opened; then others are chosen."""
MAX_FILES = 65536
"""Enough for some thousand workers; programs inherit it, and some walk through all that they may
open."""


async def serve(settings: Settings, *, announce: Callable[[str], None]) -> None:
    """Serve until SIGTERM or SIGINT; `announce` gets the line of endpoints once all is open."""
    settings.check()
    rules = requested_scenario(settings)
    try:
        state = state_directory.claim(settings.state_dir.absolute())
    except StateDirectoryError as error:
        raise ServeError(str(error), error.exit_code) from error
    _open_many_files()
    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    for tries_left in reversed(range(PORT_TRIES)):
        try:
            await _serve(settings, rules, state, stopping, announce)
        except service_ports.PortTakenError:
            if settings.port is not None or not tries_left:
                raise
        else:
            return


async def _serve(
    settings: Settings,
    rules: Scenario,
    state: StateDirectory,
    stopping: asyncio.Event,
    announce: Callable[[str], None],
) -> None:
    async with AsyncExitStack() as stack:
        with state_errors.convert_state_errors(state.path):
            lives = await _start(settings, rules, state, stack, announce)
        await _until_either(stopping, *lives)


async def _start(
    settings: Settings,
    rules: Scenario,
    state: StateDirectory,
    stack: AsyncExitStack,
    announce: Callable[[str], None],
) -> tuple[asyncio.Task[None], asyncio.Task[None]]:
    """Everything until the stack closes; what it returns ends when it cannot go on any more."""
    stack.callback((connection := open_database(state.private("state.sqlite"))).close)
    state_errors.check_state_present(state, connection)
    chosen = await isolation_choice.choose_isolation(
        settings.isolation,
        state.path,
        proxy=None if settings.offline else listeners.PACKAGE_PROXY_URL,
    )
    stack.push_async_callback(chosen.isolation.close)
    parts = build_components(settings, rules, state, connection, chosen)
    if parts.doors is not None:
        stack.callback(parts.doors.close)
    stack.callback(parts.objects.close)
    stack.push_async_callback(parts.slices.close)
    await listeners.open_ports(parts, state, stack)
    living = asyncio.create_task(parts.world.live())
    failing = asyncio.create_task(_fail_with(chosen.isolation))
    for life in (living, failing):
        stack.callback(life.cancel)
    line = _line(settings, state, parts)
    for record in parts.world.cloud.unreadable:
        sys.stderr.write(f"warning: {state_errors.describe_unreadable(record)}\n")
    stack.callback(state.endpoints.unlink, missing_ok=True)
    state.write("serving.json", {"arguments": settings.arguments()})
    state.write("endpoints.json", line)
    announce(json.dumps(line))
    return living, failing


async def _fail_with(isolation: Isolation) -> None:
    """Raises RefusedToServe when the workers are gone: the next start boots them."""
    await isolation.failure()
    raise ServeError("the simulated VPC was killed, and all workers with it", 60)


async def _until_either(stopping: asyncio.Event, *lives: asyncio.Task[None]) -> None:
    """Return when asked to stop; raise what ended one of the lives, RefusedToServe mostly."""
    asked = asyncio.ensure_future(stopping.wait())
    ended, _ = await asyncio.wait({asked, *lives}, return_when=asyncio.FIRST_COMPLETED)
    asked.cancel()
    try:
        for life in ended & set(lives):
            life.result()
    except CloudError as error:  # the disk's, or a state that no rule has made
        raise ServeError(error.message, 62) from error


def _line(settings: Settings, state: StateDirectory, parts: Components) -> dict[str, Any]:
    identity = {"name": settings.name, "project": PROJECT, "zone": ZONE, "bucket": BUCKET}
    workers = endpoints.isolation_fields(parts.hosts.isolation.mode, parts.hosts.reason)
    line = endpoints.endpoints_document({**identity, **workers}, state, parts.ports)
    if parts.tls_services is not None:
        line["google"] = parts.tls_services.endpoints(parts.ports)
    if parts.world.cloud.unreadable:
        line["unreadable"] = [asdict(record) for record in parts.world.cloud.unreadable]
    return line


def _open_many_files() -> None:
    """A slice of many workers needs more descriptors than a shell's usual soft limit."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MAX_FILES if most == resource.RLIM_INFINITY else min(most, MAX_FILES)
    with suppress(ValueError, OSError):  # not every system takes its own hard limit
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, most))
