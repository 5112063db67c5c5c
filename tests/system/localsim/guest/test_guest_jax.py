"""A JAX program on a worker holds the chips from its first backend on, and tells of its arrays."""

import importlib.util
import json
import queue
import socketserver
import threading

import pytest

from system.localsim.guest.guest_programs import run_python, start_python

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("jax") is None, reason="JAX is not installed"
)
# Waits for a line; 4 KiB on the second of two devices and 32 KiB on each; ends with its input.
ARRAYS = """
import sys, jax, jax.numpy as jnp
from jax.sharding import NamedSharding, PartitionSpec
print("imported", flush=True)
sys.stdin.readline()
one = jax.device_put(jnp.ones(1024), jax.devices()[1])
spread = NamedSharding(jax.make_mesh((2,), ("x",)), PartitionSpec("x"))
two = jax.device_put(jnp.ones(16384), spread)
gone = jax.device_put(jnp.ones(9999), jax.devices()[0])
gone.delete()
sys.stdin.read()
"""
CASES = {"JAX_NUM_CPU_DEVICES": "2", "LOCALSIM_DEBUG": "1"}


@pytest.fixture
def chips_door(tmp_path):
    """The simulator's end: greets programs, answers each line, and queues what they tell."""
    told = queue.SimpleQueue()
    (tmp_path / "vfio0").touch()
    files = {"lock": str(tmp_path / "libtpu_lockfile"), "devices": [str(tmp_path / "vfio0")]}

    class Program(socketserver.StreamRequestHandler):
        def handle(self):
            self.wfile.write(json.dumps(files).encode() + b"\n")
            for line in self.rfile:
                told.put(json.loads(line))
                self.wfile.write(b"{}\n")
            told.put("gone")

    class Door(socketserver.ThreadingTCPServer):
        daemon_threads = False

    with Door(("127.0.0.1", 0), Program) as door:
        thread = threading.Thread(target=door.serve_forever, args=(0.01,))
        thread.start()
        host, port = door.server_address
        yield f"{host}:{port}", told
        door.shutdown()
        thread.join()


def test_it_holds_nothing_until_it_has_a_backend_then_tells_its_bytes_and_keeps_others_off(
    chips_door,
):
    address, told = chips_door
    with start_python("-c", ARRAYS, LOCALSIM_CHIPS=address, **CASES) as first:
        try:
            assert first.stdout.readline() == "imported\n"
            assert told.empty()
            first.stdin.write("go on\n")
            first.stdin.flush()
            assert told.get(timeout=30) == {"hold": first.pid}
            while (usage := told.get(timeout=30))["bytes"] != [32768, 36864]:
                assert 0 <= usage["busy"] <= 1
            second = run_python("-c", "import jax; jax.devices()", LOCALSIM_CHIPS=address)
            assert second.stderr.splitlines()[-1] == (
                "RuntimeError: Unable to initialize backend 'tpu': ABORTED: The TPU is already in"
                f" use by process with pid {first.pid}. Not attempting to load libtpu.so in this"
                " process. (set JAX_PLATFORMS='' to automatically choose an available backend)"
            )
            _, noise = first.communicate("", timeout=30)
            assert (first.returncode, noise) == (0, "")
        finally:
            first.kill()
