"""What a proxy passes on, both ways, as it came."""

import asyncio
import gzip
import io

import aiohttp

from client.proxy.engines import proxied, until


def test_requests_and_answers_arrive_as_they_were_sent():
    async def scenario():
        async with proxied() as (stand, _):
            problems = []
            targets = [
                "/", "/v1/models?a=%20b&c=d%2Fe", "/a%2Fb//c/../d", "//double",
                "/%E2%82%AC?x=[1]&y={}",
            ]  # fmt: skip
            for method in ("GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "PROPFIND"):
                for target in targets:
                    told = await _echo(stand, method, target, b"\x00\xffbody")
                    wanted = (method, target, "\x00\xffbody")
                    if (told["method"], told["target"], told["body"]) != wanted:
                        problems.append((wanted, told))
            assert problems == []

    asyncio.run(scenario())


async def _echo(stand, method, target, body, **headers):
    url = aiohttp.client.URL(stand.url + target, encoded=True)
    async with stand.session.request(method, url, data=body, headers=headers) as answer:
        assert answer.status == 200
        return await answer.json(content_type=None)


def test_headers_of_this_hop_stay_here_and_those_of_a_proxy_are_added():
    async def scenario():
        async with proxied() as (stand, _):
            sent = {
                "Connection": "keep-alive, X-Mine", "X-Mine": "1", "TE": "trailers", "X-Kept": "2",
                "Keep-Alive": "timeout=5", "Proxy-Authorization": "x", "Upgrade": "h2c",
                "X-Forwarded-For": "10.0.0.1", "X-Forwarded-Proto": "https",
                "X-Request-Id": "mine-1", "Via": "1.0 other", "Authorization": "Bearer engine",
                "Host": "localhost:1234",
            }  # fmt: skip
            url = f"{stand.url}/h"
            async with stand.session.get(url, headers=sent) as answer:
                told = await answer.json(content_type=None)
                got = {name.lower(): value for name, value in told["headers"]}
                assert answer.headers.getall("X-Twice") == ["1", "2"]
                assert "X-Private" not in answer.headers
                assert answer.headers["X-Request-Id"] == "mine-1"
                assert answer.headers["Via"] == "1.1 tpuctl"
        dropped = {"connection", "x-mine", "te", "keep-alive", "proxy-authorization", "upgrade"}
        assert not dropped & set(got)
        wanted = {
            "x-kept": "2", "host": "localhost:1234", "x-forwarded-host": "localhost:1234",
            "x-forwarded-for": "10.0.0.1, 127.0.0.1", "x-forwarded-proto": "https",
            "x-request-id": "mine-1", "via": "1.0 other, 1.1 tpuctl",
            "authorization": "Bearer engine",
        }  # fmt: skip
        assert {name: got.get(name) for name in wanted} == wanted

    asyncio.run(scenario())


def test_a_request_id_that_could_forge_a_line_of_the_log_is_replaced():
    async def scenario():
        async with proxied() as (stand, _):
            sent = {"X-Request-Id": "a b\tc" + "d" * 200}
            async with stand.session.get(f"{stand.url}/status/204", headers=sent) as answer:
                assert len(answer.headers["X-Request-Id"]) == 32

    asyncio.run(scenario())


def test_events_come_one_by_one_while_the_answer_goes_on():
    async def scenario():
        async with (
            proxied() as (stand, [engine]),
            stand.session.get(f"{stand.url}/events?count=50") as answer,
        ):
            for number in range(50):  # the engine sends no event before this one was read
                assert await answer.content.readuntil(b"\n\n") == b"data: %d\n\n" % number
                assert stand.proxy.pool.in_flight == {1: 1}
                engine.is_open.set()
            assert await answer.content.read() == b""

    asyncio.run(scenario())


def test_the_parts_of_an_upload_arrive_one_by_one():
    async def scenario():
        async with proxied() as (stand, [engine]):

            async def parts():
                for number in range(20):
                    yield b"part %d" % number
                    assert await engine.got.get() == b"part %d" % number

            async with stand.session.post(f"{stand.url}/upload", data=parts()) as answer:
                assert await answer.text() == str(sum(len(b"part %d" % n) for n in range(20)))

    asyncio.run(scenario())


def test_big_bodies_are_passed_on_and_never_held():
    async def scenario():
        async with proxied() as (stand, [engine]):
            data = bytes(20 << 20)
            async with stand.session.post(f"{stand.url}/upload", data=io.BytesIO(data)) as answer:
                assert await answer.text() == str(len(data))
            async with stand.session.get(f"{stand.url}/big?parts=1200") as answer:
                # Nobody reads: the engine can send no more than what sockets and buffers hold.
                seen = -1
                while seen != engine.paths["parts"]:
                    seen = engine.paths["parts"]
                    await asyncio.sleep(0.1)
                assert seen < 800
                size = 0
                async for part in answer.content.iter_any():
                    size += len(part)
                assert size == 1200 * 65536

    asyncio.run(scenario())


def test_compressed_bodies_are_not_touched():
    async def scenario():
        packed = gzip.compress(b"hello" * 100)
        async with proxied() as (stand, [engine]):
            headers = {"Content-Encoding": "gzip"}
            url = f"{stand.url}/upload"
            async with stand.session.post(url, data=packed, headers=headers) as answer:
                assert answer.status == 200
            got = b""
            while not engine.got.empty():
                got += engine.got.get_nowait()
            assert got == b"hello" * 100  # aiohttp's server unpacks it: it came as gzip

    asyncio.run(scenario())


def test_head_and_answers_without_a_body_keep_their_headers():
    async def scenario():
        async with proxied() as (stand, _):
            async with stand.session.head(f"{stand.url}/x") as answer:
                assert answer.status == 200
                assert int(answer.headers["Content-Length"]) > 100
            for code in (204, 304, 302, 404, 418, 500):
                url = f"{stand.url}/status/{code}"
                async with stand.session.get(url, allow_redirects=False) as answer:
                    assert answer.status == code
            async with stand.session.get(f"{stand.url}/x") as answer:  # on the same connection
                assert answer.status == 200

    asyncio.run(scenario())


def test_a_websocket_keeps_its_subprotocol_its_messages_and_its_close_codes():
    async def scenario():
        async with proxied() as (stand, [engine]):
            url = f"{stand.url}/ws"
            async with stand.session.ws_connect(url, protocols=("v1.tokens", "x")) as talk:
                assert talk.protocol == "v1.tokens"
                await talk.send_str("grüß")
                assert (await talk.receive()).data == "grüß"
                big = bytes(3 << 20)
                await talk.send_bytes(big)
                assert (await talk.receive()).data == big
                assert stand.proxy.pool.in_flight == {1: 1}
                await talk.send_str("close 4321")
                closing = await talk.receive()
                assert (closing.data, closing.extra) == (4321, "as you wish")
            await engine.got.get()  # aiohttp acknowledges with a code of its own
            async with stand.session.ws_connect(url) as talk:
                await talk.close(code=4001, message=b"bye")
            assert await engine.got.get() == b"4001"
            talk = await stand.session.ws_connect(url)
            talk._response.connection.transport.abort()  # gone without a word
            await until(lambda: engine.in_flight == 0)
            async with stand.session.ws_connect(url, compress=15) as talk:
                await talk.send_str("packed " * 1000)
                assert (await talk.receive()).data == "packed " * 1000

    asyncio.run(scenario())


def test_a_websocket_that_the_engine_declines_is_answered():
    async def scenario():
        async with proxied() as (stand, _):
            url = f"{stand.url}/status/403"
            try:
                await stand.session.ws_connect(url)
            except aiohttp.WSServerHandshakeError as error:
                assert error.status == 403
            else:
                raise AssertionError("it was not declined")

    asyncio.run(scenario())
