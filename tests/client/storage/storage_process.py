"""Cloud Storage on a port of its own, and nothing else: it starts as fast as it can."""

import asyncio
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from pathlib import Path

from aiohttp import web

from localsim.clock import Clock
from localsim.rules.objects.store import ObjectStore
from localsim.services.net.request_guard import guard
from localsim.services.storage.application import application
from localsim.services.storage.body_process import BodyProcess
from localsim.services.storage.signing.signature_verifier import SignatureVerifier


async def serve(
    directory: Path,
    ready: Callable[[int], object],
    stopped: asyncio.Event,
    clock: Clock | None = None,
    receiver: BodyProcess | None = None,
    public_keys: Mapping[str, Sequence] | None = None,
) -> None:
    """Serve the objects of a directory until it is stopped; `ready` is told the port.

    `public_keys` are those of service accounts, by their addresses.
    """
    objects = ObjectStore(directory / "storage", clock or Clock())
    signatures = SignatureVerifier(
        objects.hmac_keys, lambda email: (public_keys or {}).get(email, ())
    )
    app = application(objects, body_process=receiver, signatures=signatures)
    hosts: set[str] = set()
    app.middlewares.append(guard(hosts=lambda: frozenset(hosts)))
    runner = web.AppRunner(app, access_log=None, auto_decompress=False)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", int(os.environ.get("STORAGE_PORT", "0")))
    await site.start()
    port = runner.addresses[0][1]
    hosts |= {f"127.0.0.1:{port}", f"localhost:{port}"}
    try:
        ready(port)
        await stopped.wait()
    finally:
        await runner.cleanup()
        objects.close()
        await asyncio.sleep(0)  # the turn in which the connections' sockets are closed


def main() -> None:
    def announce(port: int) -> None:
        sys.stdout.write(f"{port}\n")
        sys.stdout.flush()

    async def forever() -> None:
        with closing(BodyProcess()) as receiver:
            await serve(Path(sys.argv[1]), announce, asyncio.Event(), receiver=receiver)

    asyncio.run(forever())


if __name__ == "__main__":
    main()
