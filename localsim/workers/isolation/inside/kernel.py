"""The few system calls that Python's library lacks (Linux)."""

import ctypes
import os
import signal

CLONE_NEWNS = 0x00020000
CLONE_NEWUTS = 0x04000000
CLONE_NEWIPC = 0x08000000
CLONE_NEWUSER = 0x10000000
CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000

MS_RDONLY = 1
MS_NOSUID = 2
MS_NODEV = 4
MS_NOEXEC = 8
MS_REMOUNT = 32
MS_BIND = 4096
MS_REC = 16384
MS_PRIVATE = 1 << 18
_MNT_DETACH = 2

_PR_SET_PDEATHSIG = 1
_SYS_CLONE = {"x86_64": 56, "aarch64": 220}
_SYS_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}
_LIBC = ctypes.CDLL(None, use_errno=True)
_LIBC.mount.argtypes = [ctypes.c_char_p] * 3 + [ctypes.c_ulong, ctypes.c_char_p]
_LIBC.syscall.restype = ctypes.c_long


def unshare(flags: int) -> None:
    """Leave namespaces for new ones; raises OSError."""
    _check(_LIBC.unshare(flags), "unshare")


def enter(descriptor: int, flags: int) -> None:
    """Join a namespace, or several of a process handle, by setns(2); raises OSError."""
    _check(_LIBC.setns(descriptor, flags), "setns")


def clone(flags: int) -> int:
    """Fork into new namespaces: return 0 in the child, its process id here; raises OSError.

    For programs of one thread alone.
    """
    number = _number(_SYS_CLONE, "clone")
    ctypes.pythonapi.PyOS_BeforeFork()  # takes the lock that the child gives back
    # The order of the last arguments differs between machines; all are nothing here.
    child = int(_LIBC.syscall(number, ctypes.c_ulong(flags | signal.SIGCHLD), 0, 0, 0, 0))
    if child == 0:
        ctypes.pythonapi.PyOS_AfterFork_Child()
        return 0
    ctypes.pythonapi.PyOS_AfterFork_Parent()
    _check(child, "clone")
    return child


def die_with_parent() -> None:
    """Have the kernel kill this process when the thread that made it ends; raises OSError."""
    _check(_LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0), "prctl")


def set_host_name(name: str) -> None:
    """Set the host name of this UTS namespace; raises OSError."""
    encoded = os.fsencode(name)
    _check(_LIBC.sethostname(encoded, len(encoded)), "sethostname")


def mount(source: str, target: str, kind: str = "", flags: int = 0, data: str = "") -> None:
    """Mount `source` at `target` by mount(2); raises OSError with the target."""
    encoded = (os.fsencode(source), os.fsencode(target), kind.encode() or None)
    _check(_LIBC.mount(*encoded, flags, os.fsencode(data) or None), f"mount {target}")


def umount(target: str) -> None:
    """Unmount even what is in use (umount2(2) with MNT_DETACH); raises OSError with the target."""
    _check(_LIBC.umount2(os.fsencode(target), _MNT_DETACH), f"umount {target}")


def pivot_root(new: str, old: str) -> None:
    """Make `new` the root and put the old one at `old`; raises OSError."""
    number = _number(_SYS_PIVOT_ROOT, "pivot_root")
    _check(_LIBC.syscall(number, os.fsencode(new), os.fsencode(old)), "pivot_root")


def become_root_of_namespace(user: int, group: int) -> None:
    """Map a user and group of the outer user namespace to root of a new one; raises OSError."""
    write("/proc/self/setgroups", "deny")
    write("/proc/self/uid_map", f"0 {user} 1")
    write("/proc/self/gid_map", f"0 {group} 1")


def write(path: str, text: str) -> None:
    """Write a setting of the kernel that is shown as a file; raises OSError."""
    with open(path, "wb", buffering=0) as file:
        file.write(text.encode())


def _number(numbers: dict[str, int], name: str) -> int:
    machine = os.uname().machine
    if machine not in numbers:
        raise OSError(f"the number of {name} on {machine} is not known")
    return numbers[machine]


def _check(result: int, what: str) -> None:
    if result < 0:
        error = ctypes.get_errno()
        raise OSError(error, f"{what}: {os.strerror(error)}")
