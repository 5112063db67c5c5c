"""Serve one simulated cloud, from claiming its directory to its end."""

import asyncio
import json
import os
import resource
import signal
import sqlite3
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import AsyncExitStack, contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from localsim import service_ports, state_directory
from localsim.loopback import LOOPBACK
from localsim.rules.db.database import NewerSchemaError, open_database
from localsim.rules.db.journal import UNREADABLE, NotWrittenError, UnreadableRecord
from localsim.rules.model.cloud_errors import CloudError
from localsim.rules.objects.storage_model import StorageError
from localsim.rules.objects.store import has_no_objects
from localsim.rules.scenario.scenario import Scenario
from localsim.server import isolation_choice, listeners
from localsim.server.components import (
    BUCKET,
    PROJECT,
    ZONE,
    Components,
    build_components,
    requested_scenario,
)
from localsim.server.listeners import find_certificates
from localsim.server.settings import Settings
from localsim.services.net.google_hosts import SERVICE_OF
from localsim.services.worker.program_lines import ProgramLines
from localsim.state_directory import ServeError, StateDirectory
from localsim.workers.disk.interpreters import find_interpreter
from localsim.workers.isolation.modes import Isolation
from localsim.workers.isolation.vpc_services import VpcServices
from tpuctl import __version__

PORT_TRIES = 3
"""Free ports can be taken by others before they are opened; then others are chosen."""
OTHER_APIS = (
    "compute",
    "serviceusage",
    "cloudresourcemanager",
    "cloudbilling",
    "cloudquotas",
    "iam",
    "secretmanager",
    "logging",
    "monitoring",
    "oauth2",
)
"""They share a port: no path of one is a path of another."""
STDIN = 0
MAX_FILES = 65536
"""Enough for some thousand workers; programs inherit it, and some walk through all that they may
open."""


async def serve(settings: Settings, *, announce: Callable[[str], None]) -> None:
    """Serve until SIGTERM or SIGINT; `announce` gets the line of endpoints once all is open."""
    settings.check()
    rules = requested_scenario(settings)
    state = state_directory.claim(settings.state_dir.absolute())
    _open_many_files()
    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    if settings.end_with_stdin:
        _stop_with_stdin(stopping)
    for tries_left in reversed(range(PORT_TRIES)):
        try:
            await _serve(settings, rules, state, stopping, announce)
        except service_ports.PortTakenError:
            if settings.port is not None or not tries_left:
                raise
        else:
            return


def _stop_with_stdin(stopping: asyncio.Event) -> None:
    """Set `stopping` when standard input ends; what comes before is not read as anything.

    Raises ServeError for a standard input that nobody can wait for, such as a file.
    """
    loop = asyncio.get_running_loop()

    def look() -> None:
        if not os.read(STDIN, 4096):
            loop.remove_reader(STDIN)
            stopping.set()

    try:
        loop.add_reader(STDIN, look)
    except OSError as error:
        sentence = f"--end-with-stdin needs a pipe as standard input: {error.strerror}"
        raise ServeError(sentence, 2) from error


async def _serve(
    settings: Settings,
    rules: Scenario,
    state: StateDirectory,
    stopping: asyncio.Event,
    announce: Callable[[str], None],
) -> None:
    async with AsyncExitStack() as stack:
        with convert_state_errors(state.path):
            lives = await _start(settings, rules, state, stack, announce)
        await _until_either(stopping, *lives)


async def _start(
    settings: Settings,
    rules: Scenario,
    state: StateDirectory,
    stack: AsyncExitStack,
    announce: Callable[[str], None],
) -> tuple[asyncio.Task[None], asyncio.Task[None]]:
    """Open everything until the stack closes; return the tasks that end only by an error."""
    stack.callback((connection := open_database(state.private("state.sqlite"))).close)
    check_state_present(state, connection)
    python = None if settings.python is None else find_interpreter(settings.python)
    chosen = await isolation_choice.choose_isolation(
        settings.isolation,
        state.path,
        VpcServices(
            tuple(SERVICE_OF),
            lambda: find_certificates(state).ca,
            None if settings.offline else listeners.PACKAGE_PROXY_URL,
            () if python is None else (python,),
        ),
    )
    stack.push_async_callback(chosen.isolation.close)
    parts = build_components(settings, rules, state, connection, chosen)
    if parts.loopback_ssh is not None:
        stack.callback(parts.loopback_ssh.close)
    stack.callback(parts.objects.close)
    stack.push_async_callback(parts.slices.close)
    await listeners.open_ports(parts, state, stack)
    living = asyncio.create_task(parts.orchestrator.live())
    failing = asyncio.create_task(_fail_with(chosen.isolation))
    for life in (living, failing):
        stack.callback(life.cancel)
    lines = ProgramLines(parts.orchestrator, parts.slices.list_disks)
    for watching in (parts.sampler.live(), lines.live()):
        stack.callback(asyncio.create_task(watching).cancel)
    line = _line(settings, state, parts)
    for record in parts.orchestrator.cloud.unreadable:
        sys.stderr.write(f"warning: {describe_unreadable(record)}\n")
    stack.callback(state.endpoints.unlink, missing_ok=True)
    state.write("serving.json", {"arguments": settings.arguments(), "version": __version__})
    state.write("endpoints.json", line)
    announce(json.dumps(line))
    return living, failing


async def _fail_with(isolation: Isolation) -> None:
    """Raise ServeError when the VPC is gone with its workers; the next start boots them."""
    await isolation.failure()
    raise ServeError("the simulated VPC was killed, and all workers with it", 60)


async def _until_either(stopping: asyncio.Event, *lives: asyncio.Task[None]) -> None:
    """Return when `stopping` is set; raise the error of the task that ends first."""
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
    workers = {"mode": parts.hosts.isolation.mode}
    if parts.hosts.reason:
        workers["mode_reason"] = parts.hosts.reason
    line = endpoints_document({**identity, **workers}, state, parts.ports)
    if parts.tls_services is not None:
        line["google"] = parts.tls_services.endpoints(parts.ports)
    if parts.orchestrator.cloud.unreadable:
        line["unreadable"] = [asdict(record) for record in parts.orchestrator.cloud.unreadable]
    return line


def endpoints_document(
    identity: Mapping[str, Any], state: StateDirectory, ports: Mapping[str, int]
) -> dict[str, Any]:
    """The first line on stdout; `identity` has name, project, zone, bucket and mode."""
    neighbours = _http(ports["neighbours"])
    return {
        "name": identity["name"],
        "pid": os.getpid(),
        "state_dir": str(state.path),
        "project": identity["project"],
        "zone": identity["zone"],
        "bucket": identity["bucket"],
        **{key: identity[key] for key in ("mode", "mode_reason") if key in identity},
        "tpu_grpc": f"{LOOPBACK}:{ports['tpu_grpc']}",
        "tpu_rest": _http(ports["tpu_rest"]),
        "storage": _http(ports["storage"]),
        **dict.fromkeys(OTHER_APIS, neighbours),
        "vpc": f"socks5://{LOOPBACK}:{ports['vpc']}",
        "control": _http(ports["control"]),
    }


def _http(port: int) -> str:
    return f"http://{LOOPBACK}:{port}"


def _open_many_files() -> None:
    """Raise the limit of open files: a slice of many workers needs more than usual."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MAX_FILES if most == resource.RLIM_INFINITY else min(most, MAX_FILES)
    with suppress(ValueError, OSError):  # not every system takes its own hard limit
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, most))


def describe_unreadable(record: UnreadableRecord) -> str:
    """One line on a record that is kept and not served, with the ways out."""
    return (
        f"{record.table} {record.name!r} cannot be read ({record.cause}) and is not served; to "
        "delete such records run: tpuctl local reset; to leave them: tpuctl local up --name NAME"
    )


def check_state_present(state: StateDirectory, connection: sqlite3.Connection) -> None:
    """Raise ServeError where state was served before and its file is empty now."""
    tables = connection.execute("SELECT 1 FROM sqlite_master").fetchall()
    state.require_present("state.sqlite", is_empty=not tables)
    lacks_objects = has_no_objects(state.path / "storage")
    state.require_present("storage/objects.sqlite", is_empty=lacks_objects)


@contextmanager
def convert_state_errors(path: Path) -> Iterator[None]:
    """Convert errors of the state in the directory at `path` into ServeError."""
    try:
        yield
    except NotWrittenError as error:
        raise ServeError(error.message, 60 if error.may_pass else 62) from error
    except StorageError as error:
        raise ServeError(error.message, 60) from error
    except (NewerSchemaError, sqlite3.DatabaseError) as error:
        raise ServeError(f"cannot open the state: {error}", 62) from error
    except OSError as error:
        cause = error.strerror or str(error)
        raise ServeError(f"cannot use {error.filename or path}: {cause}", 60) from error
    except UNREADABLE as error:
        cause = f"{type(error).__name__}: {error}".splitlines()[0]
        raise ServeError(f"the state in {path} cannot be read: {cause}", 62) from error
