"""The start of a simulator in its parts: processor time of each, as one JSON object.

Its imports are those of `python -m localsim serve`, in an order that tells whose they are.
"""

import time

marks = {"python": time.process_time()}
import sys  # noqa: E402
from pathlib import Path  # noqa: E402

from localsim.startup import quick_imports  # noqa: E402


def mark(name: str) -> None:
    """Note what everything up to now has taken, and what has not been noted before."""
    marks[name] = time.process_time() - sum(marks.values())


with quick_imports():
    import asyncio
    import json
    import signal
    import sqlite3  # noqa: F401

    mark("Python's library")
    import grpc.aio  # noqa: F401

    mark("grpc")
    from aiohttp import web  # noqa: F401

    mark("aiohttp")
    import localsim.services.tpu.proto_messages
    import localsim.services.tpu.rest_messages  # noqa: F401

    mark("Google's messages")
    import localsim.rules.cloud  # noqa: F401

    mark("localsim: the cloud's rules")
    import localsim.services.storage.application  # noqa: F401

    mark("localsim: storage")
    from localsim.server import Settings, serve

    mark("localsim: the rest")


def announce(_: str) -> None:
    mark("serving: state, workers' network, ports")
    signal.raise_signal(signal.SIGTERM)


asyncio.run(serve(Settings(Path(sys.argv[1])), announce=announce))
print(json.dumps(marks))
