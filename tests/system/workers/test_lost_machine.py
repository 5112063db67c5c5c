"""A replica whose network cable is pulled, as localsim does it: nobody waits for it for ever."""

import asyncio
import os
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import replace

from client.proxy.engines import LIMITS, standing
from clouds import Runner

from system.stories.test_forgotten_slice import simulator
from tpuctl.cli.shell.runtime import Runtime
from tpuctl.models.inference.service_record import ReplicaAddress
from tpuctl.operations.services.replica_dialing import ReplicaDialer
from tpuctl.proxy.replica_pool import ReplicaTarget

SOON = replace(LIMITS, connect_s=1.0, probe_s=1.0, lost_s=0.5, silence_s=600.0)
PORT = 8000
ENGINE = f"""\
import http.server, threading

class Engine(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def do_POST(self):
        print("taken", flush=True)
        threading.Event().wait()

print("listening", flush=True)
http.server.ThreadingHTTPServer(("", {PORT}), Engine).serve_forever()
"""


@contextmanager
def engine_on(cloud, name):
    """An engine on a worker that ends no request but probes; yields the lines that it prints."""
    argv = ("node", "exec", name, "--", "python3", "-c", ENGINE)
    environ = {**os.environ, "TPUCTL_HOME": str(cloud.home)}
    with subprocess.Popen(
        [sys.executable, "-m", "tpuctl", *argv], env=environ, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout.readline() == "listening\n"
            yield process.stdout
        finally:
            process.kill()


def test_a_request_ends_at_a_replica_that_is_cut_off_without_a_word(tmp_path, namespaces):
    with simulator(tmp_path, "namespace") as cloud:
        tpuctl = Runner(cloud.home)
        assert tpuctl("node", "create", "n1", "-t", "v5litepod-1").code == 0
        runtime = Runtime(environ={"TPUCTL_HOME": str(cloud.home)})
        (worker,) = runtime.tpu.get_node(runtime.context.zone, "n1").workers
        address = ReplicaAddress(
            runtime.context.zone, "n1", 0, worker.ip_address, worker.external_ip, PORT
        )

        async def story(lines):
            async with (
                ReplicaDialer(runtime.tpu, runtime.access, runtime.sleep) as dialer,
                standing(SOON, way=dialer.dial) as stand,
            ):
                stand.proxy.update([ReplicaTarget(1, address)])
                await stand.routed(1)
                request = asyncio.create_task(stand.session.post(stand.url, data=b"x"))
                assert await asyncio.to_thread(lines.readline) == "taken\n"
                fault = await asyncio.to_thread(tpuctl, "local", "fault", "worker n1/0: cut off")
                assert fault.code == 0, fault.err
                async with await request as answer:
                    body = await answer.json()
                    assert (answer.status, body["error"]["code"]) == (502, "replica_failed")
                await stand.at_rest()

        with engine_on(cloud, "n1") as lines:
            asyncio.run(story(lines))
        runtime.close()
