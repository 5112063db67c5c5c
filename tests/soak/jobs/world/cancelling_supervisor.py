"""A supervisor over a directory in place of a bucket and no slices: `BUCKET_DIRECTORY HOME`.

Its jobs are cancelled before they have a slice, so all that it does is to end them and to say so.
"""

import asyncio
import sys
from pathlib import Path

from tpuctl.errors import NotFoundError, TransientError
from tpuctl.jobs.interfaces import Backends
from tpuctl.jobs.leases.supervisor_scope import SupervisorScope
from tpuctl.jobs.supervisor import supervisor
from tpuctl.store import open_store

CONTEXT = "here"
OWNER = "me"


class NoSlices:
    """The part of the Cloud TPU API that jobs use, without anything in it."""

    def __getattr__(self, name: str):
        def refuse(*_args: object, **_options: object) -> None:
            raise NotFoundError(f"{name}: it does not exist")

        return refuse


def refuse_to_open(url: str):
    raise TransientError(f"{url} cannot be read from here")


def main(bucket: str, home: str) -> None:
    store = open_store(bucket)
    backends = Backends(
        CONTEXT, "us-west4-a", "b", "http://b", store, NoSlices(), None, "key", refuse_to_open
    )
    scope = SupervisorScope((OWNER,), idle_exit_s=0.5)
    asyncio.run(supervisor.run(backends, scope, home=Path(home)))


if __name__ == "__main__":
    main(*sys.argv[1:])
