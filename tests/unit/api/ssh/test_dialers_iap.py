"""Google's IAP relay: its frames, its refusals, and SSH through it."""

import asyncio
import struct
from contextlib import asynccontextmanager
from itertools import pairwise

import asyncssh
import pytest
from aiohttp import web

from tpuctl.api.ssh.iap import ACKNOWLEDGED, CONNECTED, DATA, FRAME_BYTES, SUBPROTOCOL, IapRelay
from tpuctl.api.ssh.known_hosts import WorkerIdentity
from tpuctl.api.ssh.login import open_shell
from tpuctl.errors import PermissionDeniedError, TransientError, UsageError
from unit.api.ssh.ssh_worker import NODE, WORKER, ours, public, ssh_server

KEY = asyncssh.generate_private_key("ssh-ed25519")
HOST = "t1v-n-0badcafe-w-0"
KNOWN = {0: WorkerIdentity(public(KEY), HOST)}
TOKEN = {"authorization": "Bearer secret"}


class Relay:
    """A relay as Google's: a WebSocket in front of one TCP port."""

    def __init__(self, backend, close_code=None):
        self.backend = backend
        self.close_code = close_code
        self.queries = []
        self.acknowledged = []

    async def serve(self, request):
        assert request.headers["Origin"] == "bot:iap-tunneler"
        if request.headers.get("Authorization") != "Bearer secret":
            raise web.HTTPUnauthorized
        self.queries.append(dict(request.query))
        tunnel = web.WebSocketResponse(protocols=(SUBPROTOCOL,))
        await tunnel.prepare(request)
        assert tunnel.ws_protocol == SUBPROTOCOL
        if self.close_code:
            await tunnel.close(code=self.close_code, message=b"no such instance")
            return tunnel
        await tunnel.send_bytes(struct.pack("!HI", CONNECTED, 3) + b"sid")
        reader, writer = await asyncio.open_connection("127.0.0.1", self.backend)
        back = asyncio.create_task(self.carry_back(reader, tunnel))
        async for message in tunnel:
            self.take(message.data, writer)
        back.cancel()
        writer.close()
        return tunnel

    def take(self, frame, writer):
        (tag,) = struct.unpack_from("!H", frame)
        if tag == DATA:
            (size,) = struct.unpack_from("!I", frame, 2)
            assert size == len(frame) - 6 <= FRAME_BYTES
            writer.write(frame[6:])
        elif tag == ACKNOWLEDGED:
            self.acknowledged += struct.unpack_from("!Q", frame, 2)

    async def carry_back(self, reader, tunnel):
        while data := await reader.read(FRAME_BYTES):
            await tunnel.send_bytes(struct.pack("!HI", DATA, len(data)) + data)
        await tunnel.close()


@asynccontextmanager
async def serving(relay):
    app = web.Application()
    app.router.add_get("/v4/connect", relay.serve)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield f"ws://127.0.0.1:{runner.addresses[0][1]}/v4"
    finally:
        await runner.cleanup()


def through(url, headers=TOKEN, known=KNOWN):
    return IapRelay(NODE, known, project="p", headers=lambda: headers, relay=url)


def test_ssh_through_the_relay(tmp_path):
    me = ours(tmp_path)

    async def story():
        async with ssh_server(KEY, me.public_key) as door:
            relay = Relay(door)
            async with serving(relay) as url:
                way = through(url).dial
                async with await open_shell(WORKER, me, host_key=public(KEY), way=way) as shell:
                    return (await shell.run(["anything"])).stdout, relay.queries

    said, queries = asyncio.run(story())
    assert said == b"hello\n"
    assert queries == [
        {"project": "p", "zone": "us-west4-a", "instance": HOST, "interface": "nic0",
         "port": "22", "newWebsocket": "True"},
    ]  # fmt: skip


def test_much_goes_both_ways_in_frames_and_is_acknowledged():
    sent = bytes(range(256)) * 16384

    async def echo(reader, writer):
        writer.write(await reader.readexactly(len(sent)))
        await reader.read()
        writer.close()

    async def story():
        async with await asyncio.start_server(echo, "127.0.0.1") as server:
            relay = Relay(server.sockets[0].getsockname()[1])
            async with serving(relay) as url:
                made = await through(url).dial(WORKER)
                reader, writer = await asyncio.open_connection(sock=made)
                writer.write(sent)
                received = await reader.readexactly(len(sent))
                writer.close()
                return received, relay.acknowledged

    received, acknowledged = asyncio.run(story())
    assert received == sent
    steps = [after - before for before, after in pairwise([0, *acknowledged])]
    assert steps
    assert min(steps) > 2 * FRAME_BYTES


def refusal(relay, **options):
    async def story():
        async with serving(relay) as url:
            await through(url, **options).dial(WORKER)

    return story()


def test_no_such_instance_is_told_with_the_relay_s_words():
    with pytest.raises(TransientError, match="through IAP: no such instance.*4047"):
        asyncio.run(refusal(Relay(0, close_code=4047)))


@pytest.mark.parametrize(
    ("code", "headers"), [(4033, TOKEN), (None, {"authorization": "Bearer stale"})]
)
def test_who_may_not_is_told_the_role(code, headers):
    with pytest.raises(PermissionDeniedError, match=HOST) as refused:
        asyncio.run(refusal(Relay(0, close_code=code), headers=headers))
    assert "roles/iap.tunnelResourceAccessor" in refused.value.hint
    assert "stale" not in str(refused.value)


def test_a_worker_whose_vm_has_no_name_cannot_be_reached():
    with pytest.raises(UsageError, match="does not report the name of its VM"):
        asyncio.run(refusal(Relay(0), known={0: WorkerIdentity(public(KEY))}))


def test_nobody_there_is_a_lost_worker():
    with pytest.raises(TransientError, match="worker 0: cannot reach"):
        asyncio.run(through("ws://127.0.0.1:9/v4").dial(WORKER))
