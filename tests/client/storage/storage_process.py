"""Cloud Storage on a port of its own, and nothing else: it starts as fast as it can."""

import asyncio
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack, closing
from pathlib import Path

from aiohttp import web

from localsim import service_ports
from localsim.clock import Clock
from localsim.rules.objects.store import ObjectStore
from localsim.services.net.request_guard import guard
from localsim.services.storage.application import application
from localsim.services.storage.body_process import BodyProcess
from localsim.services.storage.grpc.storage_handlers import StorageHandlers
from localsim.services.storage.service import open_service
from localsim.services.storage.signing.signature_verifier import SignatureVerifier
from localsim.services.storage.wire.page_access import page_grants, serve_pages


async def serve(
    directory: Path,
    ready: Callable[..., object],
    stopped: asyncio.Event,
    clock: Clock | None = None,
    receiver: BodyProcess | None = None,
    public_keys: Mapping[str, Sequence] | None = None,
    *,
    with_grpc: bool = False,
) -> None:
    """Serve the objects of a directory until it is stopped; `ready` is told the ports.

    The second one is that of gRPC, or 0. `public_keys` are those of service accounts, by their
    addresses.
    """
    objects = ObjectStore(directory / "storage", clock or Clock())
    signatures = SignatureVerifier(
        objects.hmac_keys, lambda email: (public_keys or {}).get(email, ())
    )
    service = open_service(objects, body_process=receiver, signatures=signatures)
    app = application(service)
    hosts: set[str] = set()
    pages = page_grants(objects.buckets)
    app.middlewares.append(guard(hosts=lambda: frozenset(hosts), is_let_in=pages))
    app.middlewares.append(serve_pages)
    runner = web.AppRunner(app, access_log=None, auto_decompress=False)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", int(os.environ.get("STORAGE_PORT", "0")))
    await site.start()
    port = runner.addresses[0][1]
    hosts |= {f"127.0.0.1:{port}", f"localhost:{port}"}
    async with AsyncExitStack() as stack:
        stack.push_async_callback(_end, runner, objects)
        handlers = (StorageHandlers(service, lambda _: True),)
        grpc_port = await service_ports.start_grpc(handlers, stack) if with_grpc else 0
        ready(port, grpc_port)
        await stopped.wait()


async def _end(runner: web.AppRunner, objects: ObjectStore) -> None:
    try:
        await runner.cleanup()
    finally:
        objects.close()
        await asyncio.sleep(0)  # the turn in which the connections' sockets are closed


def main() -> None:
    def announce(*ports: int) -> None:
        sys.stdout.write(f"{' '.join(map(str, ports))}\n")
        sys.stdout.flush()

    async def forever() -> None:
        with closing(BodyProcess()) as receiver:
            await serve(
                Path(sys.argv[1]),
                announce,
                asyncio.Event(),
                receiver=receiver,
                with_grpc="grpc" in sys.argv[2:],
            )

    asyncio.run(forever())


if __name__ == "__main__":
    main()
