"""`tpuctl dashboard`: jobs and nodes in the browser of this machine."""

import asyncio
import os
import webbrowser
from pathlib import Path
from typing import Annotated

import typer

from tpuctl.cli.dashboard.board import Board
from tpuctl.cli.dashboard.server import Dashboard, serve
from tpuctl.cli.shell.daemon_threads import use_daemon_threads
from tpuctl.cli.shell.runtime import Runtime
from tpuctl.cli.supervisor import run_until_signal
from tpuctl.cli.web.html import tag
from tpuctl.durable_directories import make_private
from tpuctl.operations.metrics import local_page


def dashboard(
    runtime: Runtime,
    port: Annotated[
        int,
        typer.Option(
            metavar="PORT",
            min=0,
            max=65535,
            help="A port of 127.0.0.1; 0, the default: a free one.",
        ),
    ] = 0,
    no_open: Annotated[
        bool, typer.Option("--no-open", help="Print the link and open no browser.")
    ] = False,
) -> None:
    """Show jobs and nodes in a browser: time and money, findings, charts, chips, logs.

    It is served to this machine alone, until Ctrl-C. The link works once; then another is printed.
    """
    if runtime.has_no_local_state():
        return
    listening = local_page.listen(port, "tpuctl dashboard --port 0")
    connect(runtime)
    server = Dashboard(Board(runtime), listening.getsockname()[1])

    async def run() -> None:
        use_daemon_threads()
        async with serve(server, listening):
            _show_link(runtime, server, opens=not no_open)
            await asyncio.Event().wait()

    try:
        run_until_signal(runtime, run())
    finally:
        _link_file(runtime, server).unlink(missing_ok=True)


def connect(runtime: Runtime) -> None:
    """Make the clients, before several threads want them at once."""
    runtime.tpu, runtime.storage_session, runtime.access, runtime.outside  # noqa: B018


def _show_link(runtime: Runtime, server: Dashboard, *, opens: bool) -> None:
    def show_next(_code: str) -> None:
        _link_file(runtime, server).unlink(missing_ok=True)
        runtime.output.note(f"opened; the link for another browser: {server.link}")

    server.sessions.on_new_code = show_next
    runtime.output.line(server.link)
    runtime.out.flush()
    if opens:
        _open_browser(runtime, server)


def _open_browser(runtime: Runtime, server: Dashboard) -> None:
    """Open the link in a browser, by a file of this user: all may read the words of a command."""
    file = _link_file(runtime, server)
    make_private(file.parent)
    page = tag("meta", http_equiv="refresh", content=f"0;url={server.link}")
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as stream:
        stream.write(page)
    webbrowser.open(file.as_uri())


def _link_file(runtime: Runtime, server: Dashboard) -> Path:
    return runtime.home / f"dashboard-{server.port}.html"
