"""Lists who holds the chips of this worker, and frees them: `node free`.

Held are the chips by whoever has one of their device files open, or libtpu's lock file. Shipped as
`python3 -X utf8 -c SOURCE ORDERS`; answers with one JSON line. Where the files of other users'
processes matter and cannot be seen, it runs itself again with sudo. Standard library only,
Python 3.8.
"""

from __future__ import annotations

import contextlib
import fcntl
import glob
import json
import os
import pwd
import re
import signal
import stat
import subprocess
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

LOCK_FILE = "libtpu_lockfile"
DEVICES = ("/dev/accel[0-9]*", "/dev/vfio/[0-9]*")
NAME = re.compile(r"/dev/(accel|vfio/)[0-9]+$|/libtpu_lockfile")
LONGEST_COMMAND = 300
POLL_S = 0.05
KILL_S = 5.0
"""How long a process may take to go after SIGKILL."""


def lock_files() -> list[str]:
    """Return libtpu's lock files that exist: in /tmp, and in TMPDIR."""
    places = dict.fromkeys(["/tmp", os.environ.get("TMPDIR", "/tmp")])
    paths = [os.path.join(place, LOCK_FILE) for place in places]
    return [path for path in paths if os.path.lexists(path)]


def file_identity(path: str) -> tuple[int, int] | None:
    """Return what identifies a file, None without it: of a device its number, else its inode.

    A name alone proves nothing: a process in a container has files of its own by the same names.
    """
    try:
        found = os.stat(path)
    except OSError:
        return None
    return (-1, found.st_rdev) if stat.S_ISCHR(found.st_mode) else (found.st_dev, found.st_ino)


def chip_files() -> dict[tuple[int, int], str]:
    """Return the paths of the chips' device files and libtpu's locks by file_identity."""
    devices = [path for pattern in DEVICES for path in glob.glob(pattern)]
    found = {file_identity(path): path for path in devices + lock_files()}
    return {key: path for key, path in found.items() if key is not None}


def start_ticks(pid: int) -> int | None:
    """Return when a process began, in ticks since boot; None when it has ended."""
    with contextlib.suppress(OSError):
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
        return None if fields[0] in (b"Z", b"X") else int(fields[19])
    return None


def chip_files_of(pid: int, files: dict[tuple[int, int], str]) -> list[str]:
    """Return the paths of chip files that a process has open; raises PermissionError."""
    found = set()
    try:
        descriptors = os.listdir(f"/proc/{pid}/fd")
    except (FileNotFoundError, ProcessLookupError):
        return []
    for each in descriptors:
        path = f"/proc/{pid}/fd/{each}"
        with contextlib.suppress(OSError):
            key = file_identity(path) if NAME.search(os.readlink(path)) else None
            if key in files:
                found.add(files[key])
    return sorted(found)


def holders() -> tuple[list[dict[str, Any]], bool]:
    """Return every process that holds chips, and whether some could not be inspected."""
    files = chip_files()
    found, is_blind = [], not os.path.isdir("/proc/self/fd")
    names = os.listdir("/proc") if files and not is_blind else []
    for pid in sorted(int(name) for name in names if name.isdigit()):
        try:
            held = chip_files_of(pid, files)
        except PermissionError:
            is_blind = True
            continue
        began = start_ticks(pid)
        if held and began is not None and pid != os.getpid():
            about = describe_process(pid, began)
            found.append({"pid": pid, "started": began, "holds": held, **about})
    return found, is_blind


def describe_process(pid: int, began: int) -> dict[str, Any]:
    """Return user, command, job of tpuctl and start (since_s, of the epoch) of a process."""
    user, command, job = "", "", ""
    with contextlib.suppress(OSError):
        user = name_of(os.stat(f"/proc/{pid}").st_uid)
        command = read(f"/proc/{pid}/cmdline").replace("\0", " ").strip()
        command = command or f"[{read(f'/proc/{pid}/comm').strip()}]"
        found = re.search(r"(?:^|\0)TPUCTL_JOB=([^\0]+)", read(f"/proc/{pid}/environ"))
        job = found.group(1) if found else ""
    boot_s = time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)
    since_s = boot_s + began / os.sysconf("SC_CLK_TCK")
    return {"user": user, "command": command[:LONGEST_COMMAND], "job": job, "since_s": since_s}


def read(path: str) -> str:
    """Return the text of a file of /proc; raises OSError."""
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read()


def name_of(uid: int) -> str:
    """Return the name of a user, or the number of one without a name."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def is_locked(path: str) -> bool:
    """Whether a process holds a lock on the file, or it cannot be opened to find out."""
    try:
        with open(path, "r+b") as file:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            fcntl.lockf(file, fcntl.LOCK_UN)
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except OSError:
        return True
    return False


def holder_report() -> dict[str, Any]:
    """Return the holders and lock files; `unseen` ones are held by hidden processes."""
    found, is_blind = holders()
    locks = lock_files()
    held = {path for each in found for path in each["holds"]}
    unseen = [path for path in locks if path not in held and is_locked(path)]
    stale = [path for path in locks if path not in held and path not in unseen]
    return {"holders": found, "unseen": unseen, "stale": stale, "blind": is_blind}


def others_text(job: str) -> str:
    """Return who holds chips and is not a process of this job, in words; empty when nobody does."""
    found = holder_report()
    others = [each for each in found["holders"] if each["job"] != job]
    told = [f"process {each['pid']} of {each['user']} ({each['command']})" for each in others]
    told += [f"a process that has {path} locked" for path in found["unseen"]]
    return " and ".join(told)


def needs_more(found: dict[str, Any]) -> bool:
    """Whether root would see, or could do, what this account cannot."""
    if os.geteuid() == 0:
        return False
    me = name_of(os.geteuid())
    others = any(each["user"] != me for each in found["holders"])
    has_devices = any(glob.glob(pattern) for pattern in DEVICES)
    return bool(found["unseen"] or others or (found["blind"] and has_devices))


def rerun_as_root() -> None:
    """Run this program again as root if sudo asks for no password; else return."""
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        asked = subprocess.run(["sudo", "-n", "true"], capture_output=True, timeout=10, check=False)
        if asked.returncode == 0:
            argv = read("/proc/self/cmdline").split("\0")[:-1]
            place = f"TMPDIR={os.environ.get('TMPDIR', '/tmp')}"
            os.execvp("sudo", ["sudo", "-n", "env", place, *argv])


def free(wanted: list[list[int]], grace_s: float) -> dict[str, Any]:
    """End these processes, (pid, when it began) each, and remove what locks nobody holds."""
    gone: dict[int, list[int]] = {signal.SIGTERM: [], signal.SIGKILL: []}
    refused = set()
    alive = [(pid, began) for pid, began in wanted if start_ticks(pid) == began]
    for number, patience_s in ((signal.SIGTERM, grace_s), (signal.SIGKILL, KILL_S)):
        for pid, _ in alive:
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                pass
            except PermissionError:
                refused.add(pid)
        left = wait_for_exit(alive, patience_s)
        gone[number] = [pid for pid, began in alive if (pid, began) not in left]
        alive = left
    ended, killed = gone.values()
    return {"ended": ended, "killed": killed, "refused": sorted(refused), **remove_locks(gone)}


def wait_for_exit(alive: list[tuple[int, int]], patience_s: float) -> list[tuple[int, int]]:
    """Return the (pid, start) that still run after `patience_s` seconds."""
    deadline = time.monotonic() + patience_s
    while alive and time.monotonic() < deadline:
        alive = [(pid, began) for pid, began in alive if start_ticks(pid) == began]
        time.sleep(POLL_S if alive else 0)
    return alive


def remove_locks(gone: dict[int, list[int]]) -> dict[str, Any]:
    """Remove lock files that nobody holds; return a report of what is left.

    What a process held that has just ended is let go of when the last of its threads is gone.
    """
    found, deadline = holder_report(), time.monotonic() + KILL_S
    while found["unseen"] and any(gone.values()) and time.monotonic() < deadline:
        time.sleep(POLL_S)
        found = holder_report()
    removed = []
    for path in found["stale"]:
        with contextlib.suppress(OSError), open(path, "r+b") as file:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)  # nobody gets it just now
            os.unlink(path)
            removed.append(path)
    return {**found, "removed": removed}


def main() -> None:
    """Print a report as one JSON line; with {"free": ...} as argument, free the chips first."""
    orders = json.loads(sys.argv[1])
    found = holder_report()
    if needs_more(found):
        rerun_as_root()
    if "free" in orders:
        found = free(orders["free"], orders["grace_s"])
    sys.stdout.write(json.dumps(found) + "\n")
    sys.stdout.flush()
