"""What a worker sees of files: a root of its own, made from a plan by the worker's first process.

Overlays show the machine's own system directories and the interpreter's prefixes, and keep what
programs write to on the worker's disk, where it outlives a reboot. /proc, /sys, /dev, /tmp and /run
are the worker's own. Everything else of the machine is gone from sight. The plan is made by
localsim/workers/disk/root_plan.py.
"""

import os
from typing import Any

from localsim.workers.isolation.inside import devices, kernel, mounts, tree


def build(plan: dict[str, Any]) -> list[str]:
    """Make the root and enter it; return notes on what was done in part only. Raises OSError.

    Called in new user, mount, PID, network and IPC namespaces, by their first process.
    """
    kernel.mount("none", "/", flags=kernel.MS_REC | kernel.MS_PRIVATE)
    # Where the machine's own root is meanwhile: no link that programs left on the disk can name it,
    # so every other path leads into the new root.
    host = f"/.{os.urandom(16).hex()}"
    notes = _enter(plan["root"], host)
    devices.make_proc(guarded=plan["guard_proc"])
    notes += devices.make_sys(host, host + plan["sys_chips"])
    devices.make_dev(host, plan["chips"], plan["shm_bytes"])
    for mount in plan["mounts"]:
        notes += _MOUNT[mount["kind"]](mount, host)
    for path, target in plan["links"]:
        tree.make_link(path, target)
    tree.make_directory("/run/lock", 0o1777)
    kernel.umount(host)
    os.rmdir(host)
    return notes


def _enter(mount: dict[str, Any], old: str) -> list[str]:
    path = mount["path"]
    tree.make_directory(path)
    notes = _mount_overlay(mount, host="")
    if notes:
        kernel.mount(path, path, flags=kernel.MS_BIND)
    tree.make_directory(path + old)
    kernel.pivot_root(path, path + old)
    os.chdir("/")
    return notes


def _memory(mount: dict[str, Any], _host: str) -> list[str]:
    mounts.mount_memory(mount["path"], mount["size_bytes"], mount["mode"])
    return []


def _bind(mount: dict[str, Any], host: str) -> list[str]:
    source, path = host + mount["source"], mount["path"]
    (tree.make_directory if os.path.isdir(source) else tree.make_empty_file)(path)
    mounts.bind_read_only(source, path)
    return []


def _overlay(mount: dict[str, Any], host: str) -> list[str]:
    tree.make_directory(mount["path"])
    return _mount_overlay(mount, host)


def _mount_overlay(mount: dict[str, Any], host: str) -> list[str]:
    path = mount["path"]
    lower = [host + each for each in mount["lower"] if os.path.isdir(host + each)]
    upper, work = host + mount["upper"], host + mount["work"]
    try:
        tree.make_directory(upper)
        tree.make_directory(work)
        mounts.mount_overlay(path, lower, upper, work)
    except OSError as error:
        return [f"{path}: {_INSTEAD[mount['instead']](path, lower)} ({error})"]
    return []


def _copied(path: str, lower: list[str]) -> str:
    """Copy the lowest directory to `path` unless an earlier boot did; return a note."""
    if not os.listdir(path):
        tree.copy(lower[0], path)
    return "a private copy"


def _kept(_path: str, _lower: list[str]) -> str:
    return "nothing of the machine's own"


def _read_only(path: str, lower: list[str]) -> str:
    mounts.bind_read_only(lower[-1], path)
    return "the machine's own, read-only"


_MOUNT = {"memory": _memory, "bind": _bind, "overlay": _overlay}
_INSTEAD = {"copy": _copied, "keep": _kept, "bind": _read_only}
