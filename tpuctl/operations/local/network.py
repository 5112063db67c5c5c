"""A process moves into the network of a local cloud, where workers have their addresses (Linux).

The network is that of the process which `vpc.launcher` in the state directory names, by its id
and its start time: `PID STARTTIME`. `vpc/hosts` there is the network's /etc/hosts.
"""

import ctypes
import os
import shutil
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from tpuctl.errors import LocalIOError, NotFoundError, PreconditionError
from tpuctl.operations.local import local_cloud

HOSTS = "/etc/hosts"
_NEW_MOUNTS = 0x00020000
_NEW_USER = 0x10000000
_NEW_NETWORK = 0x40000000
_BIND, _RECURSIVE, _SLAVE = 4096, 16384, 1 << 19
_PROXIES = frozenset({"http_proxy", "https_proxy", "all_proxy", "ftp_proxy", "no_proxy"})
_BUNDLE = Path("vpc", "layer", "root", "etc", "ssl", "certs", "ca-certificates.crt")
"""Whom workers trust: the machine's authorities, and the cloud's own."""
_TRUST = (
    *("CLOUDSDK_CORE_CUSTOM_CA_CERTS_FILE", "CURL_CA_BUNDLE", "HTTPLIB2_CA_CERTS"),
    *("GRPC_DEFAULT_SSL_ROOTS_FILE_PATH", "NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE"),
    "SSL_CERT_FILE",
)
"""The variables by which programs find such a bundle; the workers have them too."""
# Python ignores these, and a program would inherit that.
_IGNORED = (signal.SIGPIPE, signal.SIGXFSZ)


def shell_environment(line: Mapping[str, Any], environ: Mapping[str, str]) -> dict[str, str]:
    """The environment in the cloud's network: its endpoints and whom to trust about TLS.

    The machine's proxies are left out.
    """
    kept = {key: value for key, value in environ.items() if key.lower() not in _PROXIES}
    bundle = Path(line["state_dir"], _BUNDLE)
    trust = dict.fromkeys(_TRUST, str(bundle)) if bundle.is_file() else {}
    endpoints = local_cloud.client_environment(line)
    return {**kept, **trust, **endpoints, "TPUCTL_CONTEXT": line["name"]}


def find_program(argv: Sequence[str], environ: Mapping[str, str]) -> str:
    """The path of the program; raises NotFoundError."""
    path = shutil.which(argv[0], path=environ.get("PATH", os.defpath))
    if path is None:
        raise NotFoundError(f"there is no program {argv[0]!r}")
    return path


def enter_network(line: Mapping[str, Any]) -> None:
    """Move this process, of one thread, into the cloud's network; raises LocalIOError.

    It stays the user that it is. For what is about to run a program: there is no way back.
    """
    state_dir = Path(line["state_dir"])
    try:
        _enter(*_namespaces(state_dir), hosts=state_dir / "vpc" / "hosts")
    except OSError as error:
        raise LocalIOError(
            f"cannot enter the network of the local cloud {line['name']!r}: {error.strerror}",
            hint="leave another `tpuctl local shell` first, or run: tpuctl local status",
        ) from error


def require_outside(home: Path, refusal: str = "no local cloud can be started") -> None:
    """Raise PreconditionError in the network of a cloud, which a new cloud could not leave."""
    for names in (home / "local").glob("*/vpc/hosts"):
        if names.samefile(HOSTS):
            raise PreconditionError(
                f"inside `tpuctl local shell` {refusal}", hint="leave the shell first, with: exit"
            )


def exec_program(path: str, argv: Sequence[str], environ: Mapping[str, str]) -> NoReturn:
    """Replace this process by the program; raises LocalIOError."""
    for number in _IGNORED:
        signal.signal(number, signal.SIG_DFL)
    try:
        os.execve(path, list(argv), environ)
    except OSError as error:
        raise LocalIOError(f"cannot run {path}: {error.strerror}") from error


def _namespaces(state_dir: Path) -> tuple[int, int]:
    """The user and the network namespace of the cloud, opened; raises OSError."""
    process, _, started = (state_dir / "vpc.launcher").read_text("ascii").strip().partition(" ")
    descriptors = [os.open(f"/proc/{process}/ns/{kind}", os.O_RDONLY) for kind in ("user", "net")]
    if _start_ticks(process) != started:  # looked at last: now these are no other process's
        raise ProcessLookupError(3, "it has just ended")
    return descriptors[0], descriptors[1]


def _start_ticks(process: str) -> str:
    """The start time of a process, in clock ticks since boot (proc(5), field 22)."""
    stat = Path("/proc", process, "stat").read_text("utf-8", "replace")
    return stat.rpartition(")")[2].split()[19]


def _enter(users: int, network: int, *, hosts: Path) -> None:
    user, group = os.geteuid(), os.getegid()
    try:
        _call("setns", network, _NEW_NETWORK)
        is_lent = False
    except PermissionError:  # only root may, and in the cloud's user namespace we are
        _call("setns", users, _NEW_USER)
        _call("setns", network, _NEW_NETWORK)
        is_lent = True
    _call("unshare", _NEW_MOUNTS)
    _call("mount", b"none", b"/", None, _RECURSIVE | _SLAVE, None)
    _call("mount", os.fsencode(hosts), HOSTS.encode(), None, _BIND, None)
    if is_lent:
        _call("unshare", _NEW_USER)
        Path("/proc/self/setgroups").write_text("deny", "ascii")
        Path("/proc/self/uid_map").write_text(f"{user} 0 1", "ascii")
        Path("/proc/self/gid_map").write_text(f"{group} 0 1", "ascii")
    for descriptor in (users, network):
        os.close(descriptor)


def _call(name: str, *arguments: Any) -> None:
    """Call a function of the C library; raises OSError."""
    function = getattr(ctypes.CDLL(None, use_errno=True), name)
    if name == "mount":
        function.argtypes = [ctypes.c_char_p] * 3 + [ctypes.c_ulong, ctypes.c_char_p]
    if function(*arguments):
        error = ctypes.get_errno()
        raise OSError(error, f"{name}: {os.strerror(error)}")
