"""`tpuctl bench serve` against a real server: what it sends, counts, prints and draws."""

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import threading

import pytest
from aiohttp import web

EVENTS = 5


class Server:
    """A server of this process, in a thread of its own, that keeps what it was sent."""

    def __init__(self):
        self.seen = []
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever)
        self.thread.start()
        self.url = self.call(self._start())

    def call(self, coroutine):
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result(30)

    async def _start(self):
        application = web.Application()
        application.router.add_route("*", "/json", self._answer)
        application.router.add_get("/stream", self._stream)
        application.router.add_get("/cut", self._cut)
        application.router.add_get("/hang", self._hang)
        self.runner = web.AppRunner(
            application, access_log=None, shutdown_timeout=0.1, handler_cancellation=True
        )
        await self.runner.setup()
        site = web.TCPSite(self.runner, "127.0.0.1", 0)
        await site.start()
        return f"http://127.0.0.1:{self.runner.addresses[0][1]}"

    async def _answer(self, request):
        self.seen.append((request.method, dict(request.headers), await request.read()))
        return web.Response(text="ok", status=503 if len(self.seen) % 4 == 0 else 200)

    async def _stream(self, request):
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        for _ in range(EVENTS):
            await response.write(b'data: {"text": "a"}\n\n')
        await response.write(b"data: [DONE]\n\n")
        return response

    async def _cut(self, request):
        response = web.StreamResponse(headers={"Content-Length": "100"})
        await response.prepare(request)
        await response.write(b"half")
        request.transport.close()
        return response

    async def _hang(self, request):
        await asyncio.sleep(60)
        return web.Response()

    def close(self):
        self.call(self.runner.cleanup())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join()
        self.loop.close()


@pytest.fixture(scope="module")
def server():
    found = Server()
    yield found
    found.close()


def test_two_rates_are_measured_one_after_the_other(offline, server, tmp_path):
    body, token = tmp_path / "body", tmp_path / "token"
    body.write_text('{"prompt": "a"}')
    token.write_text("s3cret\n")
    typed = ("bench", "serve", f"{server.url}/json", "--rate", "40,80", "--duration", "0.5s")
    typed += ("--body", str(body), "--token-file", str(token), "-H", "X-Who: me")
    result = offline(*typed, "-o", "json")
    assert result.code == 0, result.err
    found = result.json
    rates = found.pop("rates")
    assert found == {
        "url": f"{server.url}/json", "method": "POST", "duration_s": 0.5, "warm_up_s": 0.0,
        "deadline_s": 30.0, "max_in_flight": 512, "seed": 0, "stream": False,
    }  # fmt: skip
    assert [each["rate"] for each in rates] == [40.0, 80.0]
    assert sum(each["arrivals"] for each in rates) == len(server.seen)
    for each in rates:
        assert each["succeeded"] + each["failed"] == each["arrivals"]
        assert each["errors"] == {"503": each["failed"]}
        assert each["latency_p50_s"] <= each["latency_p99_9_s"] <= each["latency_max_s"]
        assert sum(count for _, count in each["latency_histogram"]) == each["succeeded"]
        assert each["received_bytes"] == 2 * each["succeeded"]
        assert each["first_event_p50_s"] is None
    for method, headers, data in server.seen:
        assert (method, data) == ("POST", b'{"prompt": "a"}')
        assert (headers["Authorization"], headers["X-Who"]) == ("Bearer s3cret", "me")
    assert "s3cret" not in result.out + result.err
    names = ("latency", "service_time", "lag", "first_event", "event_gap")
    keys = [f"{name}_{end}_s" for name in names for end in ("p50", "p90", "p99", "p99_9", "max")]
    assert list(rates[0]) == [
        "rate", "arrivals", "succeeded", "failed", "dropped", "unfinished", "errors", "throughput",
        "events_per_s", "elapsed_s", "received_bytes", "is_late", *keys,
        *(f"{name}_histogram" for name in names),
    ]  # fmt: skip


def test_streams_are_timed_by_their_events(offline, server):
    typed = ("bench", "serve", f"{server.url}/stream", "--rate", "50", "--duration", "0.4s")
    result = offline(*typed, "--stream")
    head, row = result.out.splitlines()
    assert result.code == 0
    columns = dict(zip(head.split("\t"), row.split("\t"), strict=True))
    assert list(columns)[:5] == ["RATE/S", "OK/S", "OK", "ERRORS", "DROPPED"]
    assert float(columns["FIRST P50 MS"]) <= float(columns["MAX MS"])
    assert float(columns["GAP P99 MS"]) >= float(columns["GAP P50 MS"])
    found = offline(*typed, "--stream", "-q", "-o", "json").json["rates"][0]
    assert sum(n for _, n in found["event_gap_histogram"]) == (EVENTS - 1) * found["succeeded"]


def on_time(err: str) -> str:
    """What is said without the warning that this machine is too busy to send on time."""
    return re.sub(r"warning: at \d+/s this machine sent requests late [^\n]*\n", "", err)


@pytest.mark.parametrize(
    ("path", "word"), [("cut", "truncated"), ("hang", "deadline"), ("none", "404")]
)
def test_when_nothing_succeeds_it_is_an_error(offline, server, path, word):
    typed = ("bench", "serve", f"{server.url}/{path}", "--rate", "30", "--duration", "0.3s")
    result = offline(*typed, "--deadline", "0.2s", "-q")
    assert result.code == 40
    count = re.search(rf"\t{word}=(\d+)\t", result.out).group(1)
    assert on_time(result.err) == (
        f"error: none of {count} requests succeeded: {word} ({count})\n"
        f"hint: try one with: curl -i {server.url}/{path}\n"
    )


def test_what_finds_no_room_is_dropped_with_a_warning(offline, server):
    typed = ("bench", "serve", f"{server.url}/hang", "--rate", "50", "--duration", "0.3s")
    result = offline(*typed, "--deadline", "0.2s", "--max-in-flight", "2", "-o", "json")
    assert result.json["rates"][0]["dropped"] > 0
    assert "requests were not sent, as 2 were in flight" in result.err


def test_a_curve_is_drawn(offline, server, tmp_path):
    pytest.importorskip("matplotlib", reason="a plot needs matplotlib")
    picture = tmp_path / "curve.png"
    typed = ("bench", "serve", f"{server.url}/stream", "--rate", "30,60", "--duration", "0.3s")
    result = offline(*typed, "--plot", str(picture))
    assert result.code == 0
    assert result.err.splitlines()[-1] == f"drawn: {picture}"
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert offline(*typed, "--plot", "curve.txt").code == 2


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_prints_what_was_measured(server, tmp_path, number, code):
    server.seen.clear()
    typed = [sys.executable, "-m", "tpuctl", "bench", "serve", f"{server.url}/json"]
    typed += ["--rate", "50", "--duration", "10m", "-o", "json"]
    environ = {**os.environ, "TPUCTL_HOME": str(tmp_path)}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(typed, env=environ, **pipes) as command:
        while len(server.seen) < 3 and command.poll() is None:
            threading.Event().wait(0.02)
        command.send_signal(number)
        out, err = command.communicate(timeout=60)
    assert command.returncode == code
    assert on_time(err).splitlines() == ["sending requests for 600 s", "", "interrupted"]
    (found,) = json.loads(out)["rates"]
    counted = found["succeeded"] + found["failed"] + found["unfinished"]
    assert counted == found["arrivals"] >= 3
    assert found["elapsed_s"] < 60
