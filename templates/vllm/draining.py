"""What vLLM does not do when it is told to end: say so.

It finishes the requests in flight, but answers a new one with 500, and /health with 200. With this
both are 503 from the moment on that the file DRAINING_FILE is there, which the job file's command
makes at SIGTERM. vLLM loads it as `--middleware draining.SayDraining` (ASGI).
"""

import os
from pathlib import Path

FILE = Path(os.environ["DRAINING_FILE"])
BODY = b'{"error": {"message": "the engine is shutting down", "code": 503}}'
HEADERS = [(b"content-type", b"application/json"), (b"retry-after", b"1")]


class SayDraining:
    """Refuses what comes after SIGTERM; what has begun is left alone."""

    def __init__(self, app):
        self.app = app

    async def __call__(self, scope, receive, send):
        """Answer a request, or let vLLM do it."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        if FILE.exists():
            await refuse(send)
            return
        is_begun = is_refused = False

        async def pass_on(message):
            nonlocal is_begun, is_refused
            if not is_begun and message.get("status") == 500 and FILE.exists():
                is_refused = True
                await refuse(send)
            is_begun = True
            if not is_refused:
                await send(message)

        try:
            await self.app(scope, receive, pass_on)
        except Exception:
            # Of a request that came while vLLM had its SIGTERM already.
            if is_begun or not FILE.exists():
                raise
            await refuse(send)


async def refuse(send):
    """Answer 503, to be repeated."""
    await send({"type": "http.response.start", "status": 503, "headers": HEADERS})
    await send({"type": "http.response.body", "body": BODY})
