"""gcloud as a function of its arguments, with a home of its own, against one server."""

import json
import os
import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from client.tpu.tpu_service import Service

GCLOUD = shutil.which("gcloud")


@dataclass(frozen=True)
class Done:
    """What a command did."""

    argv: tuple[str, ...]
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        assert self.code == 0, f"{self.argv}: {self.err}"
        return json.loads(self.out)

    def refused(self, *words: str) -> None:
        """It failed, saying these words."""
        assert self.code == 1, f"{self.argv}: {self.out}"
        assert [word for word in words if word not in self.err] == [], self.err


@dataclass
class Gcloud:
    """`gcloud("tpu-vm", "list")` and `gcloud.alpha(…)`; every answer is JSON."""

    home: Path
    service: Service
    asked: set[str] = field(default_factory=set)
    """The first two and three words of what was asked, behind the track."""

    def __call__(self, *argv: str) -> Done:
        return self._run((), argv)

    def alpha(self, *argv: str) -> Done:
        return self._run(("alpha",), argv)

    def _run(self, track: tuple[str, ...], argv: tuple[str, ...]) -> Done:
        done = subprocess.run(
            [GCLOUD, *track, "compute", "tpus", *argv, "--format=json"],
            env=self._environment(),
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            timeout=60,
        )
        self.asked |= {" ".join((*track, *argv[:words])) for words in (2, 3)}
        return Done(argv, done.returncode, done.stdout, done.stderr)

    def _environment(self) -> dict[str, str]:
        return {
            "PATH": os.environ["PATH"],
            "HOME": str(self.home),
            "CLOUDSDK_CONFIG": str(self.home / "gcloud"),
            "CLOUDSDK_API_ENDPOINT_OVERRIDES_TPU": f"http://127.0.0.1:{self.service.rest_port}/",
            "CLOUDSDK_AUTH_DISABLE_CREDENTIALS": "true",
            "CLOUDSDK_CORE_PROJECT": "demo",
            "CLOUDSDK_CORE_DISABLE_PROMPTS": "1",
            "CLOUDSDK_COMPUTE_ZONE": "us-west4-a",
        }


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
