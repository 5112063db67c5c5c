"""/dev, /proc and /sys of a worker: its own processes, terminals and chips, nobody else's."""

import os

from localsim.workers.isolation.inside import kernel, mounts, tree

QUIET = kernel.MS_NOSUID | kernel.MS_NODEV | kernel.MS_NOEXEC
_NODES = ("null", "zero", "full", "random", "urandom", "tty")
_LINKS = {
    "ptmx": "pts/ptmx",
    "fd": "/proc/self/fd",
    "stdin": "/proc/self/fd/0",
    "stdout": "/proc/self/fd/1",
    "stderr": "/proc/self/fd/2",
}
_DEV_BYTES = 1 << 20
_PCI, _GROUPS = "/sys/bus/pci/devices", "/sys/kernel/iommu_groups"
# Root of the machine itself may write here by the files' modes alone, and a worker's root is that
# user when the simulator is started by root.
_GUARDED = ("/proc/sys", "/proc/sysrq-trigger", "/proc/irq", "/proc/bus", "/proc/fs")


def make_dev(host: str, chips: list[str], shm_bytes: int) -> None:
    """Mount /dev; `host` is where the machine's own root is. Raises OSError.

    A chip's device file is the machine's /dev/full by another name: it opens, hardly anything else
    has it open, and whoever lists open files sees the chip.
    """
    mounts.mount_memory("/dev", _DEV_BYTES, 0o755)
    for name in _NODES:
        _node(f"{host}/dev/{name}", f"/dev/{name}")
    for path in chips:
        _node(f"{host}/dev/full", path)
    for name, target in _LINKS.items():
        os.symlink(target, f"/dev/{name}")
    tree.make_directory("/dev/pts")
    flags = kernel.MS_NOSUID | kernel.MS_NOEXEC
    kernel.mount("devpts", "/dev/pts", "devpts", flags, "newinstance,ptmxmode=0666,mode=0620")
    mounts.mount_memory("/dev/shm", shm_bytes, 0o1777)


def make_proc(*, guarded: bool) -> None:
    """Mount /proc of this PID namespace; raises OSError where the kernel refuses that."""
    tree.make_directory("/proc")
    kernel.mount("proc", "/proc", "proc", QUIET)
    if guarded:
        for path in filter(os.path.exists, _GUARDED):
            mounts.bind_read_only(path, path)


def make_sys(host: str, chips: str) -> list[str]:
    """Mount /sys with the chips as its only PCI devices; return notes on what failed in part.

    `chips` is the directory of what it shows of them.
    """
    notes = []
    tree.make_directory("/sys")
    try:
        kernel.mount("sysfs", "/sys", "sysfs", QUIET | kernel.MS_RDONLY)
    except OSError as error:
        kernel.mount(f"{host}/sys", "/sys", flags=kernel.MS_BIND | kernel.MS_REC)
        notes.append(f"/sys is the machine's own ({error.strerror})")
    if not os.path.isdir(_PCI):
        mounts.mount_memory("/sys/bus", _DEV_BYTES, 0o755)
        tree.make_directory(_PCI)
    mounts.bind_read_only(f"{chips}/devices", _PCI)
    if os.path.isdir(_GROUPS):
        mounts.bind_read_only(f"{chips}/iommu_groups", _GROUPS)
    else:
        notes.append(f"there is no {_GROUPS} on this machine: Ray finds no chips used through VFIO")
    return notes


def _node(source: str, path: str) -> None:
    tree.make_empty_file(path)
    mounts.bind_read_only(source, path)
