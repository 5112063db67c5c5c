"""Who is answered, what is refused, and requests that mean two things."""

import asyncio
import contextlib
import json
import shutil
import ssl
import subprocess
from dataclasses import replace

import aiohttp
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from client.proxy.engines import LIMITS, proxied, raw_engine, send_raw, standing, until
from tpuctl.operations.services.proxy_listening import tls_context

TOKEN = "0123456789abcdef"  # noqa: S105 - of this test
HOST = b"Host: localhost\r\n"

SMUGGLED = {
    "two lengths": b"POST /a HTTP/1.1\r\n" + HOST
    + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nabcde",
    "length and chunks": b"POST /a HTTP/1.1\r\n" + HOST
    + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /evil HTTP/1.1\r\n\r\n",
    "chunks twice": b"POST /a HTTP/1.1\r\n" + HOST
    + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n",
    "odd coding": b"POST /a HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
    "space before the colon": b"POST /a HTTP/1.1\r\n" + HOST + b"Content-Length : 5\r\n\r\nabcde",
    "folded header": b"GET /a HTTP/1.1\r\n" + HOST + b"X: a\r\n b: c\r\n\r\n",
    "bare newline": b"GET /a HTTP/1.1\nHost: localhost\nContent-Length: 3\n\nabc",
    "bad length": b"POST /a HTTP/1.1\r\n" + HOST + b"Content-Length: +5\r\n\r\nabcde",
    "negative length": b"POST /a HTTP/1.1\r\n" + HOST + b"Content-Length: -1\r\n\r\n",
    "bad chunk size": b"POST /a HTTP/1.1\r\n" + HOST
    + b"Transfer-Encoding: chunked\r\n\r\nzz\r\nabc\r\n0\r\n\r\n",
    "long chunk size": b"POST /a HTTP/1.1\r\n" + HOST
    + b"Transfer-Encoding: chunked\r\n\r\nfffffffffffffffffff\r\nabc\r\n0\r\n\r\n",
    "huge header": b"GET /a HTTP/1.1\r\n" + HOST + b"X: " + b"x" * 200_000 + b"\r\n\r\n",
    "many headers": b"GET /a HTTP/1.1\r\n" + HOST + b"X: y\r\n" * 5000 + b"\r\n",
    "huge target": b"GET /" + b"a" * 200_000 + b" HTTP/1.1\r\n" + HOST + b"\r\n",
    "zero byte": b"GET /a\x00b HTTP/1.1\r\n" + HOST + b"\r\n",
    "header with a zero byte": b"GET /a HTTP/1.1\r\n" + HOST + b"X: a\x00b\r\n\r\n",
    "not http": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    "absolute target": b"GET http://other/a HTTP/1.1\r\n" + HOST + b"\r\n",
    "connect": b"CONNECT other:443 HTTP/1.1\r\n" + HOST + b"\r\n",
    "trace": b"TRACE /a HTTP/1.1\r\n" + HOST + b"\r\n",
    "not utf-8": b"GET /a\xff\xfe HTTP/1.1\r\n" + HOST + b"X\xff: \xff\r\n\r\n",
    "two hosts": b"GET /a HTTP/1.1\r\n" + HOST + b"Host: other\r\n\r\n",
    "foreign host": b"GET /a HTTP/1.1\r\nHost: evil.example\r\n\r\n",
    "foreign page": b"GET /a HTTP/1.1\r\n" + HOST + b"Origin: https://evil.example\r\n\r\n",
    "sandboxed page": b"GET /a HTTP/1.1\r\n" + HOST + b"Origin: null\r\n\r\n",
    "picture of a page": b"GET /a HTTP/1.1\r\n" + HOST + b"Sec-Fetch-Site: cross-site\r\n\r\n",
}  # fmt: skip


def statuses(answer: bytes) -> list[int]:
    return [int(line[9:12]) for line in answer.split(b"\r\n") if line.startswith(b"HTTP/1.")]


def test_requests_that_mean_two_things_are_refused_and_reach_no_replica():
    async def scenario():
        problems = {}
        async with proxied(1, replace(LIMITS, client_silence_s=0.3)) as (stand, [engine]):
            for name, data in SMUGGLED.items():
                found = statuses(await send_raw(stand.port, data, ends=False))
                if len(found) != 1 or not 400 <= found[0] < 500 or engine.paths:
                    problems[name] = (found, dict(engine.paths))
                    engine.paths.clear()
                await stand.at_rest()
            async with stand.session.get(f"{stand.url}/a") as answer:
                assert answer.status == 200
        assert problems == {}

    asyncio.run(scenario())


def test_a_page_of_this_machine_and_programs_are_answered():
    async def scenario():
        async with proxied() as (stand, _):
            for headers in (
                {}, {"Origin": "http://localhost:3000"}, {"Host": "localhost:9"},
                {"Host": "[::1]:8000"}, {"Sec-Fetch-Site": "same-origin"},
            ):  # fmt: skip
                async with stand.session.get(f"{stand.url}/x", headers=headers) as answer:
                    assert answer.status == 200, headers

    asyncio.run(scenario())


def test_with_a_token_only_those_who_send_it_are_answered():
    async def scenario():
        async with proxied(token=TOKEN) as (stand, [engine]):
            for sent in ("", TOKEN, f"Basic {TOKEN}", f"Bearer {TOKEN}x", "Bearer ", "Bearer é"):
                headers = {"Authorization": sent} if sent else {}
                async with stand.session.post(stand.url, headers=headers, data=b"x") as answer:
                    assert answer.status == 401
                    assert answer.headers["WWW-Authenticate"] == "Bearer"
                    assert (await answer.json())["error"]["code"] == "invalid_api_key"
            assert engine.paths.total() == 0
            headers = {"Authorization": f"bearer {TOKEN}", "Origin": "https://app.example"}
            async with stand.session.get(stand.url, headers=headers) as answer:
                told = dict((await answer.json(content_type=None))["headers"])
                assert "Authorization" not in told
        assert not any(TOKEN in line for line in stand.lines)

    asyncio.run(scenario())


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    place = tmp_path_factory.mktemp("tls")
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
         "-nodes", "-keyout", "key.pem", "-out", "cert.pem", "-days", "2", "-subj", "/CN=localhost",
         "-addext", "subjectAltName=IP:127.0.0.1,DNS:localhost"],
        cwd=place, check=True, capture_output=True,
    )  # fmt: skip
    return place


def test_tls_with_curl_and_a_websocket(certificate):
    async def scenario():
        tls = tls_context(certificate / "cert.pem", certificate / "key.pem")
        async with proxied(token=TOKEN, tls=tls) as (stand, [engine]):
            engine.is_open.set()
            trusted = ssl.create_default_context(cafile=certificate / "cert.pem")
            headers = {"Authorization": f"Bearer {TOKEN}"}
            url = f"{stand.url}/ws"
            async with stand.session.ws_connect(url, ssl=trusted, headers=headers) as talk:
                await talk.send_bytes(bytes(1 << 20))
                assert (await talk.receive()).data == bytes(1 << 20)
            async with stand.session.get(stand.url, ssl=trusted, headers=headers) as answer:
                told = dict((await answer.json(content_type=None))["headers"])
                assert told["X-Forwarded-Proto"] == "https"
            if shutil.which("curl"):
                found = await curl(stand, "--cacert", str(certificate / "cert.pem"))
                assert found["body"] == "question"

    asyncio.run(scenario())


async def curl(stand, *more):
    """What the engine was sent by curl, which waits for `100 Continue`."""
    argv = [
        "curl", "-sS", "--noproxy", "*", "-H", f"Authorization: Bearer {TOKEN}",
        "-H", "Expect: 100-continue", "-d", "question", *more, f"{stand.url}/v1/echo",
    ]  # fmt: skip
    process = await asyncio.create_subprocess_exec(*argv, stdout=subprocess.PIPE)
    out, _ = await process.communicate()
    assert process.returncode == 0
    return json.loads(out)


PIECES = st.sampled_from(
    [
        b"GET ", b"POST ", b"/", b"/gate", b"/ws", b" HTTP/1.1\r\n", b" HTTP/1.0\r\n", b"\r\n",
        b"\n",
        b"Host: localhost\r\n", b"Content-Length: 3\r\n", b"Content-Length: 99999999999\r\n",
        b"Transfer-Encoding: chunked\r\n", b"Connection: close\r\n", b"Connection: Upgrade\r\n",
        b"Upgrade: websocket\r\n", b"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n",
        b"Sec-WebSocket-Version: 13\r\n", b"Expect: 100-continue\r\n", b"abc", b"3\r\nabc\r\n",
        b"0\r\n\r\n", b"\x81\x05hello", b"\x88\x02\x03\xe8", b"\xff\xff\xff", b": ", b"\x00",
        b"X-Request-Id: \xff\xfe\r\n", b"Authorization: Bearer\r\n", b"Range: bytes=0-1\r\n",
    ]
)  # fmt: skip


def test_no_bytes_of_a_client_bring_the_proxy_down():
    """Bytes that are nearly requests; each connection ends, and the counts are zero."""
    limits = replace(LIMITS, client_silence_s=0.05, silence_s=0.05)

    @settings(
        deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow], database=None
    )
    @given(st.lists(st.one_of(PIECES, st.binary(max_size=40)), max_size=12))
    def play(parts):
        runner.run(send(b"".join(parts)))

    async def send(data):
        await send_raw(stand.port, data)
        await until(lambda: not stand.proxy.requests_open)
        assert set(stand.proxy.pool.in_flight.values()) <= {0}

    with asyncio.Runner() as runner:
        opened = proxied(1, limits)
        stand, _ = runner.run(opened.__aenter__())
        try:
            play()
            assert not any("error: " in line for line in stand.lines), stand.lines
        finally:
            runner.run(opened.__aexit__(None, None, None))


ANSWER_PIECES = st.sampled_from(
    [
        b"HTTP/1.1 200 OK\r\n", b"HTTP/1.0 200 OK\r\n", b"HTTP/1.1 100 Continue\r\n\r\n",
        b"HTTP/1.1 204 No Content\r\n", b"HTTP/1.1 304 Not Modified\r\n", b"HTTP/2 200\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\n", b"HTTP/1.1 999 \r\n", b"HTTP/1.1 500 Bad\r\n",
        b"Content-Length: 3\r\n", b"Content-Length: 9\r\n", b"Content-Length: x\r\n",
        b"Transfer-Encoding: chunked\r\n", b"Connection: close\r\n", b"Connection: upgrade\r\n",
        b"Upgrade: websocket\r\n", b"Content-Encoding: gzip\r\n", b"Set-Cookie: a=b; c\r\n",
        b"X: \xff\xfe\r\n", b"X : y\r\n", b" folded\r\n", b"\r\n", b"\n", b"abc", b"3\r\nabc\r\n",
        b"0\r\n\r\n", b"zz\r\n", b"\x00", b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
    ]
)  # fmt: skip


def test_no_bytes_of_an_engine_bring_the_proxy_down():
    """The client gets an answer or the end of its connection, and the counts are zero."""
    limits = replace(LIMITS, silence_s=0.05, failures=10**9, server_errors=10**9)
    told = [b""]

    async def say(_reader, writer):
        writer.write(told[0])
        await writer.drain()

    @settings(
        deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow], database=None
    )
    @given(
        st.lists(st.one_of(ANSWER_PIECES, st.binary(max_size=30)), max_size=10),
        st.sampled_from(["GET", "POST", "HEAD"]),
    )
    def play(parts, method):
        told[0] = b"".join(parts)
        runner.run(ask(method))

    async def ask(method):
        with contextlib.suppress(aiohttp.ClientError):
            async with stand.session.request(method, f"{stand.url}/x", data=b"x") as answer:
                await answer.read()
        await stand.at_rest()

    async def open_all():
        stack = contextlib.AsyncExitStack()
        port = await stack.enter_async_context(raw_engine(say))
        stand = await stack.enter_async_context(standing(limits))
        stand.add(1, port)
        await stand.routed(1)
        return stack, stand

    with asyncio.Runner() as runner:
        stack, stand = runner.run(open_all())
        try:
            play()
            assert not any(line.startswith("error: ") for line in stand.lines), stand.lines
        finally:
            runner.run(stack.aclose())
