"""One simulated worker: its disk, SSH keys, metadata and programs."""

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from localsim.worker_facts import GuestAttributesEntry, HostIdentity
from localsim.workers import metadata_tree
from localsim.workers.disk.slice_disk import WorkerDisk
from localsim.workers.isolation.interface import Command
from localsim.workers.isolation.modes import Host, Program
from localsim.workers.spec import HEALTHY, HostFault, PublishAttribute, SliceSpec
from localsim.workers.ssh_keys import SshKeys
from tpuctl.catalog import AcceleratorType

SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
LOGIN_SHELL = "/bin/bash" if os.access("/bin/bash", os.X_OK) else "/bin/sh"


class WorkerStoppedError(Exception):
    """A program cannot start, as the worker is switched off."""


@dataclass(frozen=True, slots=True)
class WorkerContext:
    """What every worker gets from the simulator."""

    now: Callable[[], float]
    """The simulated time, in seconds since the epoch."""
    tell: PublishAttribute
    lost: Callable[[str, int], Awaitable[None]]
    """Tells the control plane that a worker of a slice has failed by itself."""
    extra_environment: Callable[[], Mapping[str, str]]
    """Asked at each start of a program, which finds it in its environment."""
    access_token: Callable[[str, Sequence[str]], str] = lambda _email, _scopes: "localsim.none"
    """Issues a token for a service account and scopes."""


class GuestAttributes:
    """What a worker's programs wrote, by namespace and key; the control plane has it first."""

    def __init__(
        self,
        entries: Iterable[GuestAttributesEntry],
        *,
        tell: Callable[[str, str, str | None], Awaitable[None]],
        announce: Callable[[], None],
    ) -> None:
        """Before each change `tell` gets namespace, key and value (None: deleted).

        `announce` is called after it.
        """
        self._values = {(entry.namespace, entry.key): entry.value for entry in entries}
        self._tell = tell
        self._announce = announce
        self._turn = asyncio.Lock()

    @property
    def namespaces(self) -> Mapping[str, Mapping[str, str]]:
        """Every value by namespace, then by key."""
        names = dict.fromkeys(namespace for namespace, _ in self._values)
        return {
            name: {key: value for (space, key), value in self._values.items() if space == name}
            for name in names
        }

    async def put(self, namespace: str, key: str, value: str) -> None:
        """Write an entry; return when the control plane has it.

        Raises AttributeNotPublishedError.
        """
        async with self._turn:  # what shows last is what was told last
            await self._tell(namespace, key, value)
            self._values[namespace, key] = value
        self._announce()

    async def delete(self, namespace: str, key: str) -> None:
        """Remove an entry; raises KeyError, AttributeNotPublishedError."""
        async with self._turn:
            if (namespace, key) not in self._values:
                raise KeyError(f"{namespace}/{key}")
            await self._tell(namespace, key, None)
            del self._values[namespace, key]
        self._announce()


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
        context: WorkerContext,
    ) -> None:
        """It starts no servers: those who do ask it for keys and metadata."""
        self.index = index
        self.hostname = hostname
        self.disk = disk
        self.host = host
        self.host_key = disk.host_key()
        self.now = context.now
        """The simulated time, in seconds since 1970."""
        self._spec = spec
        self._extra_environment = context.extra_environment
        self._access_token = context.access_token(
            metadata_tree.service_account(spec), metadata_tree.scopes(spec)
        )
        self.fault = HEALTHY
        """What is wrong with it on purpose; `host_faults.apply_fault` changes it."""
        self._is_preempted = False
        self._has_power = True
        self._changed = asyncio.Event()
        self._tell = context.tell
        self.variables: dict[str, str] = {}
        """Environment variables that its services add for programs."""
        published = spec.guest_attributes[index : index + 1]
        self.guest_attributes = GuestAttributes(
            published[0] if published else (), tell=self._tell_entry, announce=self._announce
        )
        self._ssh_keys = SshKeys(
            metadata_tree.ssh_keys(spec), delay_s=spec.ssh_keys_delay_s, now=context.now
        )

    @property
    def identity(self) -> HostIdentity:
        """Host name and SSH host key, as guest attributes publish them."""
        algorithm, key, *_ = self.host_key.export_public_key().decode().split()
        return HostIdentity(self.hostname, f"{algorithm} {key}")

    @property
    def kind(self) -> AcceleratorType:
        """The accelerator type of its slice."""
        return self._spec.kind

    @property
    def addresses(self) -> tuple[str, ...]:
        """Its VPC address, then its external one if it has one."""
        return self._spec.addresses_of(self.index)

    def attribute(self, key: str) -> str:
        """Return a value of the node's metadata, else of the project's; empty without one."""
        return self._spec.metadata.get(key, "") or self._spec.project_metadata.get(key, "")

    def authorized_keys(self, user: str) -> frozenset[str]:
        """Return the public keys (`ssh-ed25519 AAAA…`) that let this user in now."""
        return self._ssh_keys.of(user)

    def metadata(self) -> metadata_tree.Tree:
        """Return the tree that its metadata server answers from now."""
        kind, key = self.identity.host_key.split()
        published = self.guest_attributes.namespaces
        return metadata_tree.build_tree(
            self._spec,
            self.index,
            metadata_tree.WorkerState(
                hostname=self.hostname,
                is_preempted=self._is_preempted,
                access_token=self._access_token,
                # The guest agent publishes the host key; like any entry it can be overwritten.
                guest_attributes={
                    **published,
                    "hostkeys": {kind: key, **published.get("hostkeys", {})},
                },
            ),
        )

    async def metadata_change(self) -> None:
        """Return at the next change of the metadata."""
        await self._changed.wait()

    def show(self, spec: SliceSpec) -> None:
        """Take the slice's new metadata, SSH keys, maintenance and addresses."""
        self._spec = spec
        self._ssh_keys.change(metadata_tree.ssh_keys(spec))
        self._announce()

    def set_fault(self, fault: HostFault) -> None:
        """Take other faults; `host_faults.apply_fault` brings them about."""
        self.fault = fault
        self._announce()

    async def has_network(self) -> None:
        """Return when its network cable is not, or no longer, pulled."""
        while self.fault.cut_off:
            await self._changed.wait()

    def announce_preemption(self) -> None:
        """Turn instance/preempted to TRUE."""
        self._is_preempted = True
        self._announce()

    def cut_power(self) -> None:
        """Let no further program start."""
        self._has_power = False

    def environment(self, user: str) -> dict[str, str]:
        """Return the environment variables of a program of this user, those of a terminal apart."""
        return {
            "HOME": self.host.home(user),
            "LANG": "C.UTF-8",
            "LOGNAME": user,
            "OMP_NUM_THREADS": "1",
            "OPENBLAS_NUM_THREADS": "1",
            "PATH": f"{Path(sys.executable).parent}:{SYSTEM_PATH}",
            "SHELL": LOGIN_SHELL,
            "USER": user,
            **self._extra_environment(),
            **self.variables,
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
                self.host.home(user),
                streams,
                terminal,
            )
        )

    async def _tell_entry(self, namespace: str, key: str, value: str | None) -> None:
        await self._tell(self._spec.name, self.index, namespace, key, value)

    def _announce(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()
