"""An aiohttp server that only writes, fsyncs in a thread, and reads: the limit for ours.

`python bare_storage.py DIRECTORY` keeps the body of `POST …?name=NAME` in a file of the directory,
sends it for `GET …/NAME`, and prints its base URL.
"""

import asyncio
import os
import sys
from pathlib import Path

from aiohttp import web


def application(directory: Path) -> web.Application:
    async def upload(request: web.Request) -> web.Response:
        with (directory / request.query["name"]).open("wb", buffering=0) as file:
            async for data in request.content.iter_any():
                file.write(data)
            await asyncio.to_thread(os.fsync, file.fileno())
        return web.json_response({"name": request.query["name"]})

    async def download(request: web.Request) -> web.StreamResponse:
        return web.FileResponse(directory / request.path.rpartition("/")[2])

    app = web.Application(client_max_size=2**40)
    app.router.add_post("/{path:.*}", upload)
    app.router.add_get("/{path:.*}", download)
    return app


async def main(directory: Path) -> None:
    runner = web.AppRunner(application(directory), access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    host, port = runner.addresses[0]
    print(f"http://{host}:{port}", flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
