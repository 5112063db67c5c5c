"""The dashboard on a real port, and a browser of few words."""

import asyncio
import contextlib
import html
import io
import re
import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tpuctl.cli.dashboard.board import Board
from tpuctl.cli.dashboard.server import Dashboard, serve
from tpuctl.cli.shell.runtime import Runtime


@dataclass(frozen=True)
class Answer:
    """What the server sent."""

    status: int
    headers: dict[str, str]
    text: str


@dataclass
class Browser:
    """Sends requests word for word, each over a connection of its own."""

    port: int
    headers: dict[str, str] = field(default_factory=dict)
    """Of every request; those of a request come before them, None leaves one out."""

    def __post_init__(self):
        self.headers = {"Host": f"127.0.0.1:{self.port}", **self.headers}

    @property
    def origin(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def get(self, path: str, **headers: str | None) -> Answer:
        return self.send("GET", path, "", headers)

    def post(self, path: str, body: str, **headers: str | None) -> Answer:
        kind = {"Content-Type": "application/x-www-form-urlencoded", "Origin": self.origin}
        return self.send("POST", path, body, {**kind, **headers})

    def send(self, method: str, path: str, body: str, headers: dict) -> Answer:
        """Send one request; an underscore in the name of a header stands for a hyphen."""
        given = {key.replace("_", "-"): value for key, value in headers.items()}
        both = {**self.headers, "Connection": "close", "Content-Length": len(body), **given}
        lines = [f"{key}: {value}" for key, value in both.items() if value is not None]
        with socket.create_connection(("127.0.0.1", self.port), timeout=20) as connection:
            connection.sendall(
                "\r\n".join([f"{method} {path} HTTP/1.1", *lines, "", body]).encode()
            )
            with connection.makefile("rb") as stream:
                return parse(stream.read())

    def sign_in(self, link: str) -> Answer:
        """Open the link with the code, and keep the cookie."""
        answer = self.get(link.removeprefix(self.origin))
        if cookie := answer.headers.get("set-cookie"):
            self.headers["Cookie"] = cookie.partition(";")[0]
        return answer


def findings_of(page: Answer) -> list[str]:
    """What a page says is wrong, each with its evidence and command, as text without elements."""
    found = re.search(r'(?s)<ul class="findings">(.*?)</ul>', page.text)
    items = re.findall(r"(?s)<li>(.*?)</li>", found[1]) if found else []
    return [html.unescape(" ".join(re.sub(r"<[^>]*>", " ", each).split())) for each in items]


def parse(answer: bytes) -> Answer:
    """Status, headers and body of an answer."""
    head, _, body = answer.partition(b"\r\n\r\n")
    status, *lines = head.decode().split("\r\n")
    headers = {key.lower(): value for key, value in (line.split(": ", 1) for line in lines)}
    return Answer(int(status.split()[1]), headers, body.decode())


@contextlib.contextmanager
def served(home: Path, now_s: float) -> Iterator[Dashboard]:
    """A dashboard in a thread, whose live sections are made again only when `looks` is released."""
    runtime = Runtime(
        environ={"TPUCTL_HOME": str(home)}, out=io.StringIO(), err=io.StringIO(),
        now=lambda: now_s,
    )  # fmt: skip
    listening = socket.create_server(("127.0.0.1", 0))
    board = Dashboard(Board(runtime), listening.getsockname()[1], pause=never)
    started, loops = threading.Event(), []

    async def run() -> None:
        async with serve(board, listening):
            loops.append((asyncio.get_running_loop(), asyncio.current_task()))
            started.set()
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.Event().wait()

    thread = threading.Thread(target=asyncio.run, args=(run(),))
    thread.start()
    assert started.wait(20)
    try:
        yield board
    finally:
        loop, task = loops[0]
        loop.call_soon_threadsafe(task.cancel)
        thread.join(20)
        runtime.close()
    assert "warning: dashboard" not in runtime.err.getvalue()


async def never(_seconds: float) -> None:
    """Wait until the reader has gone."""
    await asyncio.Event().wait()
