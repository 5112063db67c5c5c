"""gcloud as a function of its arguments, with a home of its own, against one server."""

import json
import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from client.tpu.tpu_service import Service

GCLOUD = shutil.which("gcloud")
SERVER = Path(__file__).with_name("gcloud_server.py")


@dataclass(frozen=True)
class Done:
    """What a command did."""

    argv: tuple[str, ...]
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.ok())

    def ok(self) -> str:
        """What it printed, after it has succeeded."""
        assert self.code == 0, f"{self.argv}: {self.err}"
        return self.out

    def refused(self, *words: str) -> None:
        """It failed, saying these words."""
        assert self.code == 1, f"{self.argv}: {self.out}"
        assert [word for word in words if word not in self.err] == [], self.err


@dataclass(frozen=True)
class Program:
    """`program("storage", "ls")`: gcloud itself, which loads its modules once for all commands."""

    address: tuple[str, int]

    def __call__(self, *argv: str, **properties: str) -> Done:
        request = {"argv": argv, "environment": properties}
        with socket.create_connection(self.address, timeout=60) as connection:
            connection.sendall(json.dumps(request).encode() + b"\n")
            with connection.makefile() as reply:
                return Done(argv, **json.loads(reply.read()))


@contextmanager
def gcloud_program(home: Path, **environment: str) -> Iterator[Program]:
    """gcloud with this home and nothing of this machine's environment but PATH."""
    environment |= {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "CLOUDSDK_CONFIG": str(home / "gcloud"),
        "CLOUDSDK_CORE_DISABLE_PROMPTS": "1",
        "CLOUDSDK_CORE_DISABLE_USAGE_REPORTING": "1",
        "CLOUDSDK_PYTHON_ARGS": str(SERVER),
    }
    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        subprocess.Popen(
            [GCLOUD, str(listener.fileno())], env=environment, pass_fds=[listener.fileno()]
        ) as process,
    ):
        try:
            yield Program(listener.getsockname())
        finally:
            process.terminate()


@dataclass
class Gcloud:
    """`gcloud("tpu-vm", "list")` and `gcloud.alpha(…)`; every answer is JSON."""

    program: Program
    service: Service
    asked: set[str] = field(default_factory=set)
    """The first two and three words of what was asked, behind the track."""

    def __call__(self, *argv: str) -> Done:
        return self._run((), argv)

    def alpha(self, *argv: str) -> Done:
        return self._run(("alpha",), argv)

    def _run(self, track: tuple[str, ...], argv: tuple[str, ...]) -> Done:
        self.asked |= {" ".join((*track, *argv[:words])) for words in (2, 3)}
        return self.program(*track, "compute", "tpus", *argv, "--format=json")


@contextmanager
def gcloud_of(service: Service, home: Path) -> Iterator[Gcloud]:
    """gcloud in the project and the zone of a service."""
    with gcloud_program(
        home,
        CLOUDSDK_AUTH_DISABLE_CREDENTIALS="true",
        CLOUDSDK_API_ENDPOINT_OVERRIDES_TPU=f"http://127.0.0.1:{service.rest_port}/",
        CLOUDSDK_CORE_PROJECT="demo",
        CLOUDSDK_COMPUTE_ZONE="us-west4-a",
    ) as program:
        yield Gcloud(program, service)


_BOTH = {
    "tpu-vm": (
        "create list describe delete start stop update get-guest-attributes "
        "accelerator-types:list accelerator-types:describe versions:list versions:describe "
        "service-identity:create"
    ),
    "queued-resources": "create list describe delete reset",
    "topologies": "list",
}
_GA = {"locations": "describe"}
_ALPHA = {
    "locations": "list",
    "tpu-vm": "attach-disk detach-disk perform-maintenance simulate-maintenance-event",
    "queued-resources": "perform-maintenance",
    "reservations": "list",
}


def _spelled(prefix: str, groups: dict[str, str]) -> set[str]:
    return {
        f"{prefix}{group} {verb.replace(':', ' ')}"
        for group, verbs in groups.items()
        for verb in verbs.split()
    }


VERBS = _spelled("", _BOTH | _GA) | _spelled("alpha ", _BOTH) | _spelled("alpha ", _ALPHA)
"""Every verb of the Cloud TPU API that gcloud 528 has, but ssh and scp."""
