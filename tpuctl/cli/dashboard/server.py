"""The server of the dashboard: what each path shows, and to whom."""

import asyncio
import contextlib
import logging
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlencode

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

from tpuctl.cli.dashboard import guard, live
from tpuctl.cli.dashboard.board import Board
from tpuctl.cli.dashboard.page import HTTP_STATUS, Page, document
from tpuctl.cli.dashboard.pages.actions import (
    Ask,
    ask_to_cancel,
    ask_to_delete,
    problem_of,
    question_page,
)
from tpuctl.cli.dashboard.pages.checkpoint import checkpoint_page
from tpuctl.cli.dashboard.pages.cost import cost_page
from tpuctl.cli.dashboard.pages.job import job_charts, job_page
from tpuctl.cli.dashboard.pages.log import LogQuery, log_page
from tpuctl.cli.dashboard.pages.node import find_node, node_charts, node_page
from tpuctl.cli.dashboard.pages.overview import overview_page
from tpuctl.cli.dashboard.pages.prometheus import metrics_text
from tpuctl.cli.dashboard.sessions import Session, Sessions, has_csrf
from tpuctl.cli.shell.runtime import Runtime
from tpuctl.cli.top.worker_row import MESH_METRICS
from tpuctl.cli.web import palette
from tpuctl.cli.web.html import tag
from tpuctl.errors import TpuctlError
from tpuctl.metrics.exporters.prometheus_text import CONTENT_TYPE
from tpuctl.operations.metrics import local_page

if TYPE_CHECKING:
    from aiohttp.typedefs import Handler, Middleware

ASSETS = Path(__file__).parent / "assets"
KINDS = {
    ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml",
}  # fmt: skip
STOP_S = 0.1
"""Browsers that still read live sections are not waited for longer."""
MakePage = Callable[[Board, web.Request], Awaitable[Page]]
PAGES: Mapping[str, MakePage] = {
    "/": lambda board, _request: overview_page(board),
    "/jobs/{job}": lambda board, request: job_page(
        board, request.match_info["job"], request.query.get("worker", ""), mesh_metric(request)
    ),
    "/jobs/{job}/logs": lambda board, request: log_page(
        board, request.match_info["job"], LogQuery.parse(request.query)
    ),
    "/jobs/{job}/checkpoints": lambda board, request: checkpoint_page(
        board, request.match_info["job"]
    ),
    "/cost": lambda board, _request: cost_page(board),
    "/nodes/{zone}/{node}": lambda board, request: node_page(
        board, request.match_info["zone"], request.match_info["node"], mesh_metric(request)
    ),
}
"""Path -> what makes its page."""

QUESTIONS: Mapping[str, Ask] = {
    "/jobs/{job}/cancel": ask_to_cancel,
    "/nodes/{zone}/{node}/delete": ask_to_delete,
}
"""Path -> what its page asks, and does when it is sent back with the right answer."""


def mesh_metric(request: web.Request) -> str:
    """The metric that chips are coloured by: what the page asks for, if there is such a one."""
    asked = request.query.get("mesh", "")
    return asked if asked in MESH_METRICS else next(iter(MESH_METRICS))


@dataclass(slots=True)
class Dashboard:
    """The server: who may see the pages, and what makes them."""

    board: Board
    port: int
    """Of this machine, where it is served."""
    sessions: Sessions = field(default_factory=Sessions)
    pause: live.Pause = asyncio.sleep

    @property
    def link(self) -> str:
        """The link that works once."""
        query = urlencode({"code": self.sessions.code})
        return f"http://{local_page.ADDRESS}:{self.port}{guard.LOGIN}?{query}"

    def application(self) -> web.Application:
        """What answers at the port."""
        app = web.Application(
            middlewares=[guard.guard(self.port), self._middleware()],
            client_max_size=guard.MOST_BODY_BYTES,
        )
        app.on_response_prepare.append(guard.add_headers)
        app.router.add_get(guard.LOGIN, self._login, allow_head=False)
        app.router.add_get(guard.METRICS, self._metrics)
        app.router.add_get("/assets/{name:.+}", send_asset)
        for path, make in PAGES.items():
            app.router.add_get(path, self._page_handler(make))
        for path, ask in QUESTIONS.items():
            app.router.add_get(path, self._question_handler(ask))
            app.router.add_post(path, self._answer_handler(ask))
        app.router.add_get("/jobs/{job}/samples", self._job_samples)
        app.router.add_get("/nodes/{zone}/{node}/samples", self._node_samples)
        return app

    @property
    def _cookie(self) -> str:
        """The name of the cookie: all ports of this machine share their cookies."""
        return f"tpuctl-dashboard-{self.port}"

    def session_of(self, request: web.Request) -> Session | None:
        """The session whose cookie a request has."""
        return self.sessions.find(request.cookies.get(self._cookie, ""))

    def _middleware(self) -> "Middleware":
        """What asks for the link first, and makes a page of an error."""

        @web.middleware
        async def check(request: web.Request, handler: "Handler") -> web.StreamResponse:
            if self.session_of(request) is None and request.path not in guard.WITHOUT_COOKIE:
                return _plain_page(401, "Open the newest link that tpuctl dashboard has printed.")
            try:
                return await handler(request)
            except TpuctlError as error:
                status = HTTP_STATUS.get(error.exit_code, 502)
                return self._error_page(request, status, str(error), error.hint)
            except web.HTTPNotFound:
                return self._error_page(request, 404, "There is no such page.")

        return check

    async def _login(self, request: web.Request) -> web.Response:
        """Exchange the code of the link for a cookie."""
        session = self.sessions.exchange(request.query.get("code", ""))
        if session is None and self.session_of(request) is None:
            return _plain_page(403, "This link was used before: open the newest one.")
        # To a redirect after a click on another page the browser would not add the cookie.
        answer = _plain_page(200, "Signed in.", refresh="0;url=/")
        if session is not None:
            answer.set_cookie(self._cookie, session.token, httponly=True, samesite="Strict")
        return answer

    async def _metrics(self, _request: web.Request) -> web.Response:
        """The page of Prometheus, which has no cookie."""
        text = await metrics_text(self.board)
        return web.Response(body=text.encode(), headers={"Content-Type": CONTENT_TYPE})

    def _page_handler(self, make: MakePage) -> "Handler":
        async def answer(request: web.Request) -> web.StreamResponse:
            if live.wants_events(request):
                return await live.stream(request, lambda: make(self.board, request), self.pause)
            return self._answer(request, await make(self.board, request))

        return answer

    def _question_handler(self, ask: Ask) -> "Handler":
        async def show(request: web.Request) -> web.StreamResponse:
            question = await asyncio.to_thread(ask, self.board, request.match_info)
            return self._answer(request, question_page(question, self._csrf(request)))

        return show

    def _answer_handler(self, ask: Ask) -> "Handler":
        """What does what was asked, if the form is that of a page which this browser got."""

        async def take(request: web.Request) -> web.StreamResponse:
            given = {key: str(value) for key, value in (await request.post()).items()}
            session = self.session_of(request)
            if session is None or not has_csrf(session, given.get("csrf", "")):
                return _plain_page(403, "Refused: this form is not one of this dashboard.")
            question = await asyncio.to_thread(ask, self.board, request.match_info)
            if problem := problem_of(question, given):
                return self._answer(request, question_page(question, session.csrf, problem), 400)
            session.messages.append(await asyncio.to_thread(question.act))
            return web.Response(status=303, headers={"Location": question.then})

        return take

    def _csrf(self, request: web.Request) -> str:
        session = self.session_of(request)
        return session.csrf if session else ""

    async def _node_samples(self, request: web.Request) -> web.Response:
        """The charts of a node, for the scripts of its page."""
        zone, name = request.match_info["zone"], request.match_info["node"]
        node = await find_node(self.board, zone, name)
        return web.json_response(await asyncio.to_thread(node_charts, self.board, node))

    async def _job_samples(self, request: web.Request) -> web.Response:
        """The charts of a job, for the scripts of its page."""
        job, workers = request.match_info["job"], request.query.get("worker", "")
        found = await asyncio.to_thread(job_charts, self.board, job, workers)
        return web.json_response(found)

    def _error_page(
        self, request: web.Request, status: int, why: str, hint: str | None = None
    ) -> web.Response:
        next_step = tag("p", hint, class_="muted") if hint else None
        page = Page("That did not work", fixed={"error": tag("div", tag("p", why), next_step)})
        return self._answer(request, page, status)

    def _answer(self, request: web.Request, page: Page, status: int = 200) -> web.Response:
        session = self.session_of(request)
        messages = session.take_messages() if session else []
        text = document(page, self.board.runtime.context.name, messages)
        return web.Response(text=text, status=status, content_type="text/html")


def _plain_page(status: int, text: str, refresh: str | None = None) -> web.Response:
    """A page without the files that only a browser with a cookie gets."""
    icon = tag("link", rel="icon", href="/assets/icon.svg")
    again = [icon, tag("meta", http_equiv="refresh", content=refresh)] if refresh else None
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("title", "tpuctl"),
        again,
    )
    link = tag("p", tag("a", "Go on", href="/")) if refresh else None
    body = tag("body", tag("main", tag("h1", "tpuctl dashboard"), tag("p", text), link))
    page = tag("html", head, body, lang="en")
    return web.Response(status=status, text=f"<!doctype html>\n{page}\n", content_type="text/html")


async def send_asset(request: web.Request) -> web.Response:
    """A file of the pages: a name that is on the list, never a path."""
    name = request.match_info["name"]
    if name == "palette.css":
        return web.Response(text=palette.stylesheet(), content_type="text/css")
    path = assets().get(name)
    if path is None:
        return web.Response(status=404, text="There is no such file.\n")
    return web.Response(body=path.read_bytes(), content_type=KINDS[path.suffix], charset="utf-8")


@cache
def assets() -> dict[str, Path]:
    """The files that pages load, by their names."""
    found = (path for path in ASSETS.rglob("*") if path.suffix in KINDS)
    return {path.relative_to(ASSETS).as_posix(): path for path in found}


@contextlib.asynccontextmanager
async def serve(dashboard: Dashboard, listening: socket.socket) -> AsyncIterator[None]:
    """Serve the dashboard at a socket that listens at its port."""
    runner = web.AppRunner(
        dashboard.application(),
        access_log=None,
        logger=_logger(dashboard.board.runtime),
        shutdown_timeout=STOP_S,
    )
    await runner.setup()
    try:
        await web.SockSite(runner, listening).start()
        yield
    finally:
        await dashboard.board.watches.close()
        await runner.cleanup()
        listening.close()


def _logger(runtime: Runtime) -> logging.Logger:
    """The errors of the server: a line for each, and none of requests it cannot read."""

    class OneLine(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            error = record.exc_info[1] if record.exc_info else None
            if not isinstance(error, HttpProcessingError):
                why = f": {type(error).__name__}: {error}" if error else ""
                runtime.output.warn(f"dashboard: {record.getMessage()}{why}")

    logger = logging.Logger("tpuctl.dashboard", logging.WARNING)
    logger.addHandler(OneLine())
    return logger
