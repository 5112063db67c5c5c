"""The layer that all workers of a simulator share between the machine's files and their own.

    root/                what / is before anything is written to it, with
    root/etc/            the machine's /etc as far as every user may read it, and what is a worker's
    root/usr/, lib/ …    sudo, libtpu's stand-in, and directories that their owner can write to
    root/opt/localsim/   what else is put on a worker
    database/            what a package manager must be able to write to
    chips/<generation>-<chips>/ what /sys shows of chips, with the first worker of the type

It is made again with the first worker after each start of a simulator.

A user namespace of an ordinary user maps one user id: files of root below an overlay are nobody's
there, and nothing can be made in a directory that is nobody's. A directory of the same name in a
layer of the simulator's own user lends its owner to it.
"""

import contextlib
import os
import shutil
import stat
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from localsim.workers.disk import installers
from tpuctl.catalog import AcceleratorType

_DIRECTORIES = {
    "/dev": 0o755,
    "/etc": 0o755,
    "/home": 0o755,
    "/lost+found": 0o700,
    "/media": 0o755,
    "/mnt": 0o755,
    "/opt": 0o755,
    "/proc": 0o555,
    "/root": 0o700,
    "/run": 0o755,
    "/srv": 0o755,
    "/sys": 0o555,
    "/tmp": 0o1777,
    "/var/cache/apt/archives/partial": 0o755,
    "/var/cache/man": 0o755,
    "/var/lib/apt/lists/partial": 0o755,
    "/var/lib/misc": 0o755,
    "/var/local": 0o755,
    "/var/log/apt": 0o755,
    "/var/mail": 0o755,
    "/var/opt": 0o755,
    "/var/spool": 0o755,
    "/var/tmp": 0o1777,
}
_LINKS = {
    "/etc/hostname": "/proc/sys/kernel/hostname",
    "/var/run": "/run",
    "/var/lock": "/run/lock",
}
DATABASE = Path("/var/lib/dpkg")
"""The installed packages, on Debian and Ubuntu, as TPU VMs have it."""
_LENT = {
    "/usr": 2,
    "/usr/local": 3,
    "/usr/lib/python3": 1,
    "/usr/share/bash-completion": 1,
    "/usr/share/man": 1,
}
"""Where programs and packages make new files -> so many levels of directories."""
_LARGEST_BYTES = 4 << 20
_OWN = frozenset(
    ("fstab", "hostname", "hosts", "machine-id", "nsswitch.conf", "resolv.conf")
    + ("passwd", "passwd-", "group", "group-", "shadow", "shadow-", "gshadow", "gshadow-")
    + ("sudoers", "sudoers.d")
)
"""Of /etc: what is about this machine and its people."""
_SUDO = """\
#!/bin/sh
# Programs are root here already: drop sudo's own options and run the rest, with root's PATH.
PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin
shell=
while [ $# -gt 0 ]; do
    case $1 in
        --) shift; break ;;
        -[ugprtCDRTh]) shift 2 ;;
        -i | -s | --login | --shell) shell=1; shift ;;
        -*) shift ;;
        *=*) export "$1"; shift ;;
        *) break ;;
    esac
done
[ $# -gt 0 ] || [ -z "$shell" ] || exec "${SHELL:-/bin/sh}"
exec "$@"
"""
_FILES = {
    "apt/apt.conf.d/99localsim": 'APT::Sandbox::User "root"; // the only user there is\n',
    "hosts": "",
    "nsswitch.conf": "passwd: files\ngroup: files\nshadow: files\nhosts: files\n",
    "resolv.conf": "# Names are in /etc/hosts; there is no name server.\n",
    "shadow": "root:*:::::::\n",
}
_LOCKS = frozenset(("lock", "lock-frontend", "Lock"))
_USERS = ["root:x:0:0:root:/root:/bin/bash"]
_NOBODY = ["nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin"]


def build_layer(
    layer: Path,
    files: Mapping[str, Path],
    *,
    points: Iterable[str],
    links: Mapping[str, str],
    proxy: str | None,
) -> None:
    """Make the layer, in place of an older one; raises OSError.

    `files` are put on every worker: path below /opt/localsim -> file or directory here. Something
    is going to be mounted at each of the `points`, and `links` are path -> target. What installs
    packages goes through the HTTP `proxy`.
    """
    shutil.rmtree(layer, ignore_errors=True)
    top = root_directory(layer)
    top.mkdir(mode=0o755, parents=True)
    _write_tree(top, points, {**_LINKS, **links})
    _copy_readable(Path("/etc"), top / "etc", skipped=_OWN)
    _write_own(top / "etc")
    _write_programs(top)
    if proxy is not None:
        installers.configure_proxy(top, proxy)
    _hide_private(Path("/opt"), top / "opt")
    for target, source in files.items():
        _place(source, top / "opt" / "localsim" / target)
    database_directory(layer).mkdir()
    if os.geteuid() != 0:
        for path, levels in _LENT.items():
            _lend_owner(Path(path), top / path[1:], levels)
        _lend_database(database_directory(layer))


def root_directory(layer: Path) -> Path:
    """The directory that is the lowest layer of / on every worker."""
    return layer / "root"


def database_directory(layer: Path) -> Path:
    """The directory that is the layer on top of the machine's DATABASE."""
    return layer / "database"


def chips_directory(layer: Path, kind: AcceleratorType) -> Path:
    """The directory of what /sys shows of the chips on workers of this type."""
    return layer / "chips" / f"{kind.generation}-{kind.chips_per_worker}"


def _write_tree(top: Path, points: Iterable[str], links: Mapping[str, str]) -> None:
    for path in points:
        (top / path[1:]).mkdir(mode=0o755, parents=True, exist_ok=True)
    for path, mode in _DIRECTORIES.items():
        if path not in links:  # some systems keep /home elsewhere
            (top / path[1:]).mkdir(parents=True, exist_ok=True)
            (top / path[1:]).chmod(mode)
    for path, target in links.items():
        (top / path[1:]).parent.mkdir(parents=True, exist_ok=True)
        (top / path[1:]).symlink_to(target)


def _copy_readable(source: Path, target: Path, skipped: frozenset[str] = frozenset()) -> None:
    """Copy a directory without the files that some user of this machine may not read."""
    target.mkdir(mode=0o755, exist_ok=True)
    for entry in os.scandir(source):
        status = entry.stat(follow_symlinks=False)
        path = target / entry.name
        if entry.name in skipped:
            continue
        if stat.S_ISLNK(status.st_mode):
            path.symlink_to(Path(entry.path).readlink())
        elif stat.S_ISDIR(status.st_mode) and status.st_mode & 0o005 == 0o005:
            _copy_readable(Path(entry.path), path)
        elif _is_wanted(status):
            with contextlib.suppress(PermissionError):
                shutil.copy(entry.path, path)


def _is_wanted(found: os.stat_result) -> bool:
    is_readable = stat.S_ISREG(found.st_mode) and bool(found.st_mode & stat.S_IROTH)
    return is_readable and found.st_size <= _LARGEST_BYTES


def _hide_private(source: Path, target: Path) -> None:
    """Hide what some user of this machine may not read, by whiteouts in the layer `target`."""
    if os.geteuid() != 0 or not source.is_dir():
        return  # who may not read it does not see it
    for entry in os.scandir(source):
        if not entry.stat(follow_symlinks=False).st_mode & stat.S_IROTH:
            os.mknod(target / entry.name, stat.S_IFCHR)


def _write_own(etc: Path) -> None:
    for name, content in _FILES.items():
        path = etc / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    users = [*_USERS, *_system_rows("passwd"), *_NOBODY]
    (etc / "passwd").write_text("\n".join(users) + "\n")
    groups = ["root:x:0:", *_system_rows("group"), "nogroup:x:65534:"]
    (etc / "group").write_text("\n".join(groups) + "\n")


def _system_rows(name: str) -> Iterator[str]:
    """The rows of /etc/passwd or /etc/group that packages add: no people, and not root's."""
    try:
        rows = Path("/etc", name).read_text().splitlines()
    except OSError:
        return
    for row in rows:
        fields = row.split(":")
        if len(fields) > 3 and fields[2].isdigit() and 0 < int(fields[2]) < 1000:
            # The members of groups are people.
            yield ":".join([*fields[:3], ""]) if name == "group" else row


def _write_programs(layer: Path) -> None:
    sudo = layer / "usr" / "local" / "bin" / "sudo"
    sudo.parent.mkdir(parents=True)
    sudo.write_text(_SUDO)
    sudo.chmod(0o755)
    library = layer / Path("/lib").resolve().relative_to("/") / "libtpu.so"
    library.parent.mkdir(parents=True, exist_ok=True)
    library.touch()


def _place(source: Path, target: Path) -> None:
    target.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    if source.is_dir():
        shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
    else:
        shutil.copy(source, target)


def _lend_owner(source: Path, target: Path, levels: int) -> None:
    if not source.is_dir():
        return
    target.mkdir(mode=0o755, exist_ok=True)
    if not levels:
        return
    for entry in os.scandir(source):
        if entry.is_dir(follow_symlinks=False) and os.access(entry.path, os.R_OK | os.X_OK):
            _lend_owner(Path(entry.path), target / entry.name, levels - 1)


def _lend_database(target: Path) -> None:
    """Copy the files that a package manager locks and rewrites, but not the many lists of files."""
    if not DATABASE.is_dir():
        return
    for source in (DATABASE, DATABASE / "triggers"):
        there = target / source.relative_to(DATABASE)
        there.mkdir(exist_ok=True)
        for entry in os.scandir(source):
            if entry.is_dir(follow_symlinks=False):
                (there / entry.name).mkdir()
            elif entry.name in _LOCKS:
                (there / entry.name).touch(mode=0o640)
            elif entry.is_file() and os.access(entry.path, os.R_OK):
                shutil.copy(entry.path, there / entry.name)
