"""What a worker sees of files in namespace mode, decided here and made by isolation/inside/root.py.

| path | what it is |
|---|---|
| / | an overlay over a layer that the simulator prepared, its /etc: see system_layer.py |
| /usr, /opt … and the interpreter's prefixes | overlays over the machine's own |
| /var/lib/dpkg | an overlay over the machine's own |
| /tmp, /run, /dev/shm | memory, of a fixed size, empty after a boot |
| localsim, tpuctl, /etc/hosts | read-only, at their own paths |

What programs write to an overlay is kept on the worker's disk.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import quote

import localsim
import tpuctl
from localsim.workers import chips
from localsim.workers.disk import system_layer, trust
from localsim.workers.disk.interpreters import Interpreter, own_interpreter
from localsim.workers.disk.slice_disk import WorkerDisk
from tpuctl import catalog

TMP_BYTES = 2 << 30
RUN_BYTES = 64 << 20
SHM_BYTES = 2 << 30
# Where distributions keep programs and libraries; Nix and Guix have stores of their own.
_SYSTEM = ("/bin", "/gnu", "/lib", "/lib32", "/lib64", "/libx32", "/nix", "/opt", "/sbin", "/usr")
_MOST_LINKS = 40
Pythons = tuple[Interpreter, ...]
"""Those of the workers besides the one that runs this."""


def layer_directory(shared: Path) -> Path:
    """The shared layer in a directory that all workers of a simulator share."""
    return shared / "layer"


def prepare_shared(
    shared: Path,
    files: Mapping[str, Path],
    *,
    pythons: Pythons = (),
    proxy: str | None = None,
    find_authority: Callable[[], Path] | None = None,
) -> None:
    """Make what all workers' plans refer to but their chips, in 0.1 s; raises OSError.

    `files` are put on every worker: path below /opt/localsim -> file or directory here. `pythons`
    are there besides the one that runs this. What installs packages there goes through the HTTP
    `proxy`. Programs there also trust the CA whose file `find_authority` gives.
    """
    layer = layer_directory(shared)
    machine = _machine(layer, pythons)
    points = [*(each.path for each in machine.overlays), *machine.packages]
    system_layer.build_layer(layer, files, points=points, links=machine.links, proxy=proxy)
    if find_authority is not None:
        trust.write_bundle(system_layer.root_directory(layer), find_authority())


def prepare_chips(shared: Path, accelerator_type: str) -> None:
    """Make what the plan of a worker of this type refers to, unless it is there; raises OSError."""
    kind = catalog.accelerator_type(accelerator_type)
    directory = system_layer.chips_directory(layer_directory(shared), kind)
    if not directory.exists():
        chips.write_chips(directory, kind)


def plan_root(
    disk: WorkerDisk,
    *,
    accelerator_type: str,
    hosts_file: Path,
    shared: Path,
    pythons: Pythons = (),
) -> dict[str, Any]:
    """What `root.build` needs to know, for JSON; touches nothing.

    `prepare_shared` and `prepare_chips` must have been called. `hosts_file` becomes /etc/hosts:
    rewrite it in place, a file of the same name is not seen.
    """
    kind = catalog.accelerator_type(accelerator_type)
    layer = layer_directory(shared)
    machine = _machine(layer, pythons)
    top = _Overlay("/", (str(system_layer.root_directory(layer)),), "copy")
    overlays = [_overlay(overlay, disk) for overlay in machine.overlays]
    bundle = system_layer.root_directory(layer) / trust.BUNDLE.relative_to("/")
    mounts = [*_memory(), *overlays, *_binds(hosts_file, bundle, machine)]
    return {
        "root": _overlay(top, disk) | {"path": str(disk.system)},
        "links": list(machine.links.items()),
        # What is mounted on something comes after it.
        "mounts": sorted(mounts, key=lambda mount: mount["path"].split("/")),
        "sys_chips": str(system_layer.chips_directory(layer, kind)),
        "chips": chips.device_files(kind),
        "shm_bytes": SHM_BYTES,
        "guard_proc": os.geteuid() == 0,
    }


def interpreter_prefixes(pythons: Pythons = ()) -> list[Path]:
    """The directories of the interpreters which no system directory contains.

    They are that which runs localsim and the given ones. A virtual environment has two directories:
    its own, and that of the interpreter it was made from.
    """
    known = (own_interpreter(), *pythons)
    prefixes = {path.resolve() for each in known for path in each.prefixes}
    outside = [path for path in sorted(prefixes) if not _is_below(path, _SYSTEM)]
    return [path for path in outside if not _is_below(path.parent, map(str, outside))]


def package_directories() -> list[Path]:
    """The directories of localsim and tpuctl that lie outside of all overlays."""
    directories = [Path(path).resolve() for each in (localsim, tpuctl) for path in each.__path__]
    return [path for path in directories if not _is_below(path, _covered(()))]


@dataclass(frozen=True, slots=True)
class _Overlay:
    """Directories of this machine, the first on top, that every worker has an overlay over."""

    path: str
    lower: tuple[str, ...]
    instead: str
    """What to do where the kernel refuses overlays: `copy` it, `bind` the lowest, or `keep` /."""


@dataclass(frozen=True, slots=True)
class _Machine:
    """What the plans of all workers have in common."""

    overlays: tuple[_Overlay, ...]
    packages: tuple[str, ...]
    links: Mapping[str, str]
    bundles: tuple[str, ...]
    """The files of certifi, in which the workers' own authorities are shown."""


@cache
def _machine(layer: Path, pythons: Pythons) -> _Machine:
    bundles = {str(each.certifi) for each in (own_interpreter(), *pythons) if each.certifi}
    return _Machine(
        tuple(_overlays(layer, pythons)),
        tuple(map(str, package_directories())),
        _links(pythons),
        tuple(sorted(bundles)),
    )


def _overlays(layer: Path, pythons: Pythons) -> Iterator[_Overlay]:
    for path in _SYSTEM:
        if Path(path).is_dir() and not Path(path).is_symlink() and any(Path(path).iterdir()):
            lower = (f"{system_layer.root_directory(layer)}{path}", path)
            yield _Overlay(path, lower, "keep" if path == "/opt" else "bind")
    database = str(system_layer.DATABASE)
    if system_layer.DATABASE.is_dir():
        yield _Overlay(database, (str(system_layer.database_directory(layer)), database), "bind")
    for prefix in map(str, interpreter_prefixes(pythons)):
        yield _Overlay(prefix, (prefix,), "bind")


def _overlay(overlay: _Overlay, disk: WorkerDisk) -> dict[str, Any]:
    name = quote(overlay.path, safe="")
    return {
        "kind": "overlay",
        **asdict(overlay),
        "upper": str(disk.upper / name),
        "work": str(disk.work / name),
    }


def _memory() -> Iterator[dict[str, Any]]:
    yield {"kind": "memory", "path": "/tmp", "size_bytes": TMP_BYTES, "mode": 0o1777}
    yield {"kind": "memory", "path": "/run", "size_bytes": RUN_BYTES, "mode": 0o755}


def _binds(hosts_file: Path, bundle: Path, machine: _Machine) -> Iterator[dict[str, Any]]:
    yield {"kind": "bind", "path": "/etc/hosts", "source": str(hosts_file.absolute())}
    for path in machine.bundles if bundle.is_file() else ():
        yield {"kind": "bind", "path": path, "source": str(bundle)}
    for path in machine.packages:
        yield {"kind": "bind", "path": path, "source": path}


def _links(pythons: Pythons) -> dict[str, str]:
    """The links of this machine without which paths of the system or the interpreter lead nowhere.

    For example /bin -> usr/bin, and what a tool that installs interpreters links to the newest.
    """
    links: dict[str, str] = {}
    inside = [path for path in _covered(pythons) if not Path(path).is_symlink()]
    known = (own_interpreter(), *pythons)
    starts = [path for each in known for path in (each.executable, *each.prefixes)]
    for path in (*map(Path, _SYSTEM), *starts):
        links.update(_links_on(path, inside))
    return links


def _links_on(path: Path, inside: list[str]) -> Iterator[tuple[str, str]]:
    for _ in range(_MOST_LINKS):
        link = next((each for each in (*reversed(path.parents), path) if each.is_symlink()), None)
        if link is None:
            return
        target = link.readlink()
        if not _is_below(link.parent, inside):
            yield str(link), str(target)
        path = Path(os.path.normpath(link.parent / target / path.relative_to(link)))


def _covered(pythons: Pythons) -> list[str]:
    return [*_SYSTEM, *map(str, interpreter_prefixes(pythons))]


def _is_below(path: Path, directories: Iterable[str]) -> bool:
    return any(path.is_relative_to(directory) for directory in directories)
