"""One simulated worker: its disk, its door's keys, what its metadata server and programs know."""

import asyncio
import os
import secrets
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from localsim.workers import attributes
from localsim.workers.disk import WorkerDisk
from localsim.workers.isolation import Command, Host, Program
from localsim.workers.spec import SliceSpec, WorkerIdentity

SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
LOGIN_SHELL = "/bin/bash" if os.access("/bin/bash", os.X_OK) else "/bin/sh"


class WorkerStoppedError(Exception):
    """The worker has no power."""


class Worker:
    """A host of a slice, from its boot to its stop."""

    def __init__(
        self,
        spec: SliceSpec,
        index: int,
        *,
        hostname: str,
        disk: WorkerDisk,
        host: Host,
        extra_environment: Callable[[], Mapping[str, str]],
    ) -> None:
        """`extra_environment` is asked at each start of a program."""
        self.index = index
        self.hostname = hostname
        self.disk = disk
        self.host = host
        self.host_key = disk.host_key()
        self._spec = spec
        self._extra_environment = extra_environment
        self._access_token = f"localsim.{secrets.token_urlsafe(32)}"
        self._is_preempted = False
        self._has_power = True
        self._changed = asyncio.Event()

    @property
    def identity(self) -> WorkerIdentity:
        """What guest attributes publish."""
        algorithm, key, *_ = self.host_key.export_public_key().decode().split()
        return WorkerIdentity(self.hostname, f"{algorithm} {key}")

    def authorized_keys(self, user: str) -> frozenset[str]:
        """The public keys (`ssh-ed25519 AAAA…`) that the node's metadata lets in as this user."""
        lines = (
            line.partition(":") for line in self._spec.metadata.get("ssh-keys", "").splitlines()
        )
        keys = (key.split() for name, _, key in lines if name.strip() == user)
        return frozenset(" ".join(words[:2]) for words in keys if len(words) >= 2)

    def metadata(self) -> attributes.Tree:
        """What its metadata server answers now."""
        return attributes.tree(
            self._spec,
            index=self.index,
            hostname=self.hostname,
            is_preempted=self._is_preempted,
            access_token=self._access_token,
        )

    async def metadata_change(self) -> None:
        """Return at the next change of the metadata."""
        await self._changed.wait()

    def update_metadata(self, metadata: Mapping[str, str]) -> None:
        """Replace the user's metadata; keys in it count from now on."""
        self._spec = replace(self._spec, metadata=dict(metadata))
        self._announce()

    def announce_preemption(self) -> None:
        """Turn instance/preempted to TRUE."""
        self._is_preempted = True
        self._announce()

    def cut_power(self) -> None:
        """Let no further program start."""
        self._has_power = False

    def environment(self, user: str) -> dict[str, str]:
        """All that a program of this user finds in its environment, but for its terminal."""
        return {
            "HOME": str(self.disk.home),
            "LANG": "C.UTF-8",
            "LOGNAME": user,
            "OMP_NUM_THREADS": "1",
            "OPENBLAS_NUM_THREADS": "1",
            "PATH": f"{Path(sys.executable).parent}:{SYSTEM_PATH}",
            "SHELL": LOGIN_SHELL,
            "TMPDIR": str(self.disk.temporary),
            "USER": user,
            **self._extra_environment(),
            **self.host.environment,
        }

    async def start(
        self,
        command: str | None,
        *,
        user: str,
        environment: Mapping[str, str],
        streams: tuple[int, int, int],
        terminal: str | None = None,
    ) -> Program:
        """Run a command line in the home directory as sshd does; None is an interactive shell.

        `environment` is what the client and its terminal add. Raises OSError, WorkerStoppedError.
        """
        if not self._has_power:
            raise WorkerStoppedError(self.hostname)
        argv = (LOGIN_SHELL,) if command is None else (LOGIN_SHELL, "-c", command)
        return await self.host.start(
            Command(
                argv,
                {**self.environment(user), **environment},
                self.disk.home,
                streams,
                terminal,
            )
        )

    def _announce(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()
