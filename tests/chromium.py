"""Chromium without a window, driven by its DevTools protocol: pages, pictures and times."""

import asyncio
import base64
import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp

NAMES = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome")
ANSWER_S = 60.0
REMOVALS = 100
LOOK_S = 0.1
Message = dict[str, Any]


def chromium_path() -> str | None:
    """The browser of CHROMIUM, else one of this machine; None without any."""
    return os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)


@dataclass
class Tab:
    """A page of the browser."""

    socket: aiohttp.ClientWebSocketResponse
    session: str
    answers: dict[int, asyncio.Future[Message]]
    listeners: dict[str, list[Callable[[Message], None]]] = field(default_factory=dict)

    async def send(self, method: str, **params: Any) -> Message:
        """Call a method of the protocol (https://chromedevtools.github.io/devtools-protocol)."""
        number = len(self.answers) + 1
        self.answers[number] = asyncio.get_running_loop().create_future()
        to = {"sessionId": self.session} if self.session else {}
        await self.socket.send_json({"id": number, "method": method, "params": params, **to})
        answer = await asyncio.wait_for(self.answers[number], ANSWER_S)
        if "error" in answer:
            raise RuntimeError(f"{method}: {answer['error']['message']}")
        result: Message = answer["result"]
        return result

    def listen(self, event: str, call: Callable[[Message], None]) -> None:
        """Call `call` with what each such event tells."""
        self.listeners.setdefault(event, []).append(call)

    async def value(self, script: str) -> Any:
        """The value of an expression of JavaScript; a promise is waited for."""
        answer = await self.send(
            "Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True
        )
        if "exceptionDetails" in answer:
            raise RuntimeError(str(answer["exceptionDetails"]))
        return answer["result"].get("value")

    async def until(self, script: str, deadline_s: float = ANSWER_S) -> None:
        """Wait until an expression is true, on whichever page is there by then."""
        async with asyncio.timeout(deadline_s):
            while True:
                with suppress(RuntimeError):  # the page is just replaced by another one
                    if await self.value(script):
                        return
                await asyncio.sleep(LOOK_S)

    async def resize(self, width: int, height: int = 800) -> None:
        """Make the page as wide as a window or a telephone."""
        await self.send(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1,
            mobile=width < 500,
        )  # fmt: skip

    async def prefer(self, scheme: str) -> None:
        """Prefer `light` or `dark`."""
        await self.send(
            "Emulation.setEmulatedMedia",
            features=[{"name": "prefers-color-scheme", "value": scheme}],
        )

    async def go(self, url: str) -> None:
        """Open a page and wait until all that it names is there."""
        await self.send("Page.navigate", url=url)
        await self.until(f"location.href == {url!r} && document.readyState == 'complete'")

    async def picture(self, path: Path, quality: int = 80, most_height: int = 100_000) -> None:
        """Write the whole page, from its top, as PNG or WebP by the name of the file."""
        size = (await self.send("Page.getLayoutMetrics"))["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"], "scale": 1}
        kind = path.suffix.removeprefix(".")
        options = {} if kind == "png" else {"quality": quality}
        shot = await self.send(
            "Page.captureScreenshot", format=kind, captureBeyondViewport=True,
            clip={**clip, "height": min(size["height"], most_height)}, **options,
        )  # fmt: skip
        path.write_bytes(base64.b64decode(shot["data"]))


@asynccontextmanager
async def browse(*options: str) -> AsyncIterator[Tab]:
    """A browser of its own with one page, that ends with all it keeps."""
    # Not below a test's own directory: the path of a UNIX socket in there would be too long.
    home = tempfile.mkdtemp(dir="/tmp")
    argv = (
        chromium_path() or NAMES[0], "--headless=new", "--no-sandbox", "--disable-gpu",
        "--disable-dev-shm-usage", "--hide-scrollbars", "--no-first-run",
        "--remote-debugging-port=0", f"--user-data-dir={home}", *options, "about:blank",
    )  # fmt: skip
    told = Path(home) / "DevToolsActivePort"
    try:
        process = await asyncio.create_subprocess_exec(
            *argv, env={**os.environ, "TMPDIR": home},
            stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL,
        )  # fmt: skip
        try:
            async with _connect(told) as tab:
                yield tab
        finally:
            with suppress(ProcessLookupError):
                process.terminate()
            await process.wait()
    finally:
        await _remove(home)


async def _remove(home: str) -> None:
    """Remove the browser's directory, into which its last children may write for a while."""
    for _ in range(REMOVALS):
        shutil.rmtree(home, ignore_errors=True)
        if not Path(home).exists():
            return
        await asyncio.sleep(LOOK_S)


@asynccontextmanager
async def _connect(told: Path) -> AsyncIterator[Tab]:
    async with asyncio.timeout(ANSWER_S):
        while not told.is_file() or len(told.read_text().split()) < 2:
            await asyncio.sleep(LOOK_S)
    port, path = told.read_text().split()
    async with (
        aiohttp.ClientSession() as client,
        client.ws_connect(f"ws://127.0.0.1:{port}{path}", max_msg_size=0) as socket,
    ):
        tab = Tab(socket, "", {})
        reader = asyncio.create_task(_read(tab))
        tab.session = await _attach(tab)
        for domain in ("Page", "Runtime", "Network"):
            await tab.send(f"{domain}.enable")
        try:
            yield tab
        finally:
            reader.cancel()


async def _attach(tab: Tab) -> str:
    """Open a page; its session has all that is sent to it."""
    target = (await tab.send("Target.createTarget", url="about:blank"))["targetId"]
    attached = await tab.send("Target.attachToTarget", targetId=target, flatten=True)
    session: str = attached["sessionId"]
    return session


async def _read(tab: Tab) -> None:
    async for message in tab.socket:
        told = message.json()
        if "id" in told:
            tab.answers[told["id"]].set_result(told)
        for call in tab.listeners.get(told.get("method", ""), ()):
            call(told["params"])
