"""A node of four workers in a VPC, and programs of this machine run in `tpuctl local shell`."""

import json
import os
import subprocess
import sys
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from clouds import Runner, serve

NODE = "n1"
TYPE = "v5litepod-16"
PROMPT = "acceptance_delay_s: 0\nprovisioning_delay_s: 0\nupdate_delay_s: 0\ndeletion_delay_s: 0\n"


@dataclass(frozen=True)
class Peer:
    """A worker, as the API tells of it."""

    hostname: str
    address: str
    external_address: str
    host_key: str


@dataclass(frozen=True)
class Inside:
    """`inside("ssh", …)` runs a program in there, with a home of its own."""

    home: Path
    line: Mapping[str, Any]
    workers: tuple[Peer, ...]

    def __call__(self, *argv: str, stdin: str = "", **environ: str):
        return subprocess.run(
            [sys.executable, "-P", "-m", "tpuctl", "local", "shell", "--", *argv],
            env={
                "PATH": os.environ["PATH"],
                "HOME": str(self.home),
                "USER": "ada",
                "TPUCTL_HOME": str(self.home / "tpuctl"),
                **environ,
            },
            input=stdin,
            capture_output=True,
            text=True,
            timeout=60,
            cwd=self.home,
        )

    def api(self, verb: str, suffix: str = "", body: object = None) -> Any:
        """What the API says of the node over REST."""
        return _asked(self.line, verb, suffix, body)


@contextmanager
def node_in_vpc(home: Path, *, ssh_keys: str = "") -> Iterator[Inside]:
    """A simulator with one READY node; `ssh_keys` as its metadata holds them."""
    tpuctl_home = home / "tpuctl"
    (scenario := home / "prompt.yaml").write_text(PROMPT)
    (keys := home / "ssh-keys").write_text(ssh_keys)
    options = ("--isolation", "namespace", "--offline", "--scenario", str(scenario))
    with contextmanager(serve)(tpuctl_home, *options) as cloud:
        argv = ("node", "create", NODE, "-t", TYPE)
        made = Runner(tpuctl_home)(*argv, "--metadata-from-file", f"ssh-keys={keys}")
        assert made.code == 0, made.err
        yield Inside(home, cloud.line, _workers(cloud.line))


def _workers(line: Mapping[str, Any]) -> tuple[Peer, ...]:
    endpoints = _asked(line, "GET")["networkEndpoints"]
    told = _asked(line, "POST", ":getGuestAttributes", {"workerIds": [""]})["guestAttributes"]
    found = []
    for endpoint, attributes in zip(endpoints, told, strict=True):
        entries = {each["key"]: each["value"] for each in attributes["queryValue"]["items"]}
        external = endpoint.get("accessConfig", {}).get("externalIp", "")
        key = f"ssh-ed25519 {entries['ssh-ed25519']}"
        found.append(Peer(entries["hostname"], endpoint["ipAddress"], external, key))
    return tuple(found)


def _asked(line: Mapping[str, Any], verb: str, suffix: str = "", body: object = None) -> Any:
    parent = f"projects/{line['project']}/locations/{line['zone']}"
    url = f"{line['tpu_rest']}/v2/{parent}/nodes/{NODE}{suffix}"
    data = None if body is None else json.dumps(body).encode()
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(url, data, headers, method=verb)
    with urllib.request.urlopen(request, timeout=30) as reply:
        return json.loads(reply.read())
