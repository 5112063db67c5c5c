"""The disks of a slice: what of its workers outlives a stop and a crash of the simulator.

    slices/<random id>/slice.json            whose it is, its host names, its reserved ports
    slices/<random id>/<worker>/home, tmp    what programs on the worker write to in process mode
    slices/<random id>/<worker>/system       what they see as / in namespace mode,
    slices/<random id>/<worker>/upper, work  and what they change below the machine's directories
    slices/<random id>/<worker>/host_key     the SSH host key
    slices/<random id>/<worker>/var/log/startup-script.log   of all its boots, in process mode
    slices/<random id>/<worker>/processes/   an empty file per running program: <pid>-<start time>

No name of the cloud ever becomes part of a path.
"""

import json
import os
import secrets
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from localsim.state_directory import write_private

if TYPE_CHECKING:
    from asyncssh import SSHKey

SCHEMA = 1
_GONE = ".gone"
MOST_SMALL_ENTRIES = 500
_KIB = 1024
_LONGEST_REASON = 300


class NewerDiskError(Exception):
    """A newer localsim wrote this disk."""


class IncompleteRemovalError(OSError):
    """A disk is given up, but not all of its files can be removed."""


@dataclass(frozen=True, slots=True)
class WorkerDisk:
    """The directory of one worker."""

    directory: Path

    @property
    def home(self) -> Path:
        """The directory in which commands start."""
        return self.directory / "home"

    @property
    def temporary(self) -> Path:
        """The worker's own TMPDIR."""
        return self.directory / "tmp"

    @property
    def system(self) -> Path:
        """The directory that programs see as / in namespace mode."""
        return self.directory / "system"

    @property
    def upper(self) -> Path:
        """The upper layers of the overlays over the machine's own directories, one for each."""
        return self.directory / "upper"

    @property
    def work(self) -> Path:
        """The work directories of the overlays, one for each of `upper`."""
        return self.directory / "work"

    @property
    def processes(self) -> Path:
        """The directory with an empty file per running program."""
        return self.directory / "processes"

    @property
    def marker(self) -> str:
        """The value of an environment variable that marks the worker's processes."""
        return f"{self.directory.parent.name}-{self.directory.name}"

    def used_bytes(self) -> int:
        """What programs with a host of their own have written to it, by walking through it all.

        What programs closed to their own user is not counted. Raises OSError.
        """
        return _used_bytes(self.system, self.upper)

    def host_key(self) -> "SSHKey":
        """The SSH host key, the same for as long as the disk exists."""
        from asyncssh import read_private_key

        return read_private_key(self.directory / "host_key")

    def format(self, hostname: str) -> None:
        """Create the directories and the host key of a new disk; raises OSError."""
        from asyncssh import generate_private_key

        for directory in (self.directory, self.home, self.temporary, self.processes):
            directory.mkdir(mode=0o700)
        (self.home / ".bashrc").touch(mode=0o600)
        (self.home / ".bashrc").write_text(f"PS1='$LOGNAME@{hostname}:\\w\\$ '\n")
        key = generate_private_key("ssh-ed25519", comment=hostname)
        write_private(self.directory / "host_key", key.export_private_key())


@dataclass(frozen=True, slots=True)
class SliceDisk:
    """The directory of one slice and what is written in its slice.json."""

    directory: Path
    name: str
    host_prefix: str
    coordinator_port: int
    worker_ports: tuple[int, ...]

    @property
    def workers(self) -> tuple[WorkerDisk, ...]:
        """One disk per worker, in order."""
        return tuple(map(self.worker, range(len(self.worker_ports))))

    def worker(self, index: int) -> WorkerDisk:
        """The disk of one worker."""
        return WorkerDisk(self.directory / str(index))

    def hostname(self, index: int) -> str:
        """`t1v-n-<8 hex>-w-<worker>`, as on Google."""
        return f"{self.host_prefix}-w-{index}"

    @property
    def ports(self) -> frozenset[int]:
        """Every port of this machine that the slice's programs may open."""
        return frozenset({self.coordinator_port, *self.worker_ports})

    def save(self) -> None:
        """Write slice.json, as a whole or not at all; raises OSError."""
        content = {
            "schema": SCHEMA,
            "name": self.name,
            "host_prefix": self.host_prefix,
            "coordinator_port": self.coordinator_port,
            "worker_ports": self.worker_ports,
        }
        write_private(self.directory / "slice.json", json.dumps(content).encode())


def create_disk(slices: Path, name: str, ports: tuple[int, ...]) -> SliceDisk:
    """A new disk with the ports of the coordinator and of each worker; raises OSError."""
    directory = slices / secrets.token_hex(8)
    slices.mkdir(mode=0o700, parents=True, exist_ok=True)
    directory.mkdir(mode=0o700)
    disk = SliceDisk(directory, name, f"t1v-n-{secrets.token_hex(4)}", ports[0], ports[1:])
    for index, worker in enumerate(disk.workers):
        worker.format(disk.hostname(index))
    disk.save()  # last: a disk without slice.json was never finished
    return disk


def load_disk(directory: Path) -> SliceDisk | None:
    """The slice whose disk this is; None when it was left half made or half removed.

    Raises NewerDiskError.
    """
    if directory.name.endswith(_GONE) or not (directory / "slice.json").is_file():
        return None
    content = json.loads((directory / "slice.json").read_text())
    if content["schema"] > SCHEMA:
        raise NewerDiskError(f"{directory} was written by a newer localsim")
    return SliceDisk(
        directory,
        content["name"],
        content["host_prefix"],
        content["coordinator_port"],
        tuple(content["worker_ports"]),
    )


def slice_directories(slices: Path) -> Iterator[Path]:
    """The directory of every slice, whole or not."""
    if slices.is_dir():
        yield from sorted(path for path in slices.iterdir() if path.is_dir())


def slice_id(directory: Path) -> str:
    """The random id that the markers of a slice's processes begin with."""
    return directory.name.removesuffix(_GONE)


def remove_disk(directory: Path) -> None:
    """Delete a slice's disk; after a crash half-way, what is left no longer loads.

    Raises OSError, IncompleteRemovalError when the disk has gone and files of it have not.
    """
    gone = directory.with_name(slice_id(directory) + _GONE)
    directory.rename(gone)
    if _remove_small(gone):
        return
    # Programs may have nested directories deeper than Python and the kernel's paths go; `rm` walks
    # by descriptors. And they may have taken away their own right to delete.
    if _system("rm", "-rf", gone).returncode == 0:
        return
    _system("chmod", "-R", "u+rwX", gone)
    if (again := _system("rm", "-rf", gone)).returncode:
        reason = again.stderr.partition("\n")[0][:_LONGEST_REASON]
        raise IncompleteRemovalError(f"{gone} cannot be removed: {reason}")


def _remove_small(directory: Path) -> bool:
    """Delete a tree of few files, which takes less time than the start of `rm`; False: it stays.

    A part of a tree that stays may be gone.
    """
    entries = 0
    for _, names, files in os.walk(directory):
        entries += len(names) + len(files)
        if entries > MOST_SMALL_ENTRIES:
            return False
    with suppress(RecursionError):
        shutil.rmtree(directory, ignore_errors=True)
    return not directory.exists()


def _used_bytes(*directories: Path) -> int:
    rows = _system("du", "-sk", *directories).stdout.splitlines()
    return sum(int(row.split()[0]) * _KIB for row in rows)


def _system(program: str, option: str, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run a program of the system on our files; raises OSError when there is none."""
    return subprocess.run(
        [program, option, *arguments],
        capture_output=True,
        text=True,
        errors="replace",
        env={**os.environ, "LC_ALL": "C"},
        check=False,
    )
