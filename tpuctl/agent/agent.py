"""Runs one attempt of a job on one worker: one file, Python 3.8 and its standard library only.

    agent.py run DIR                 fetch the workdir, set up, wait for `start`, run: in background
    agent.py start DIR               let a prepared run begin
    agent.py stop DIR --grace S      SIGTERM to the program's process group, SIGKILL after S seconds
    agent.py status DIR              print the status once; exit 1 when there is no such run
    agent.py watch DIR --offset N    stream status and log as JSON lines until the run is over

DIR/config.json (0600) says what to run. The agent holds a lock on DIR/lock for as long as it lives:
a run whose status is not final and whose lock is free has lost its agent: docs/agent-protocol.md.
"""

from __future__ import annotations

import argparse
import base64
import contextlib
import fcntl
import http.client
import json
import os
import re
import selectors
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from urllib.parse import quote, urlsplit

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

PROTOCOL = 1
BLOCK_BYTES = 256 * 1024
SEGMENT_BYTES = 8 * 1024 * 1024
LINE_BYTES = 64 * 1024
SEGMENT_EVERY_S = 15.0
HEARTBEAT_S = 5.0
STATUS_EVERY_S = 0.1
POLL_S = 0.05
KEEPALIVE_S = 10.0
GRACE_S = 10.0
LAST_UPLOAD_S = 20.0
LEFTOVERS_S = 2.0
DYING_S = 10.0
HTTP_TIMEOUT_S = 30.0
FETCH_ATTEMPTS = 6
METADATA_TIMEOUT_S = 2.0


# ---------------------------------------------------------------------------- the log


class Log:
    """DIR/log: whole lines, each with the time at which it came."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.size_bytes = path.stat().st_size if path.exists() else 0
        self.rest = b""

    def feed(self, block: bytes) -> bytes:
        """Stamp and append the whole lines of a block; return what was appended."""
        text = self.rest + block
        cut = text.rfind(b"\n") + 1
        if not cut and len(text) < LINE_BYTES:
            self.rest = text
            return b""
        whole, self.rest = (text[:cut], text[cut:]) if cut else (text + b"\n", b"")
        return self.append(whole)

    def append(self, whole: bytes) -> bytes:
        """Stamp and append text that ends with a line end."""
        stamp = f"{time.time():.3f} ".encode()
        data = stamp + whole[:-1].replace(b"\n", b"\n" + stamp) + b"\n"
        with self.path.open("ab") as file:
            file.write(data)
        self.size_bytes += len(data)
        return data

    def end_line(self) -> bytes:
        """Append what came without a line end."""
        rest, self.rest = self.rest, b""
        return self.append(rest + b"\n") if rest else b""


def progress(data: bytes) -> dict[str, Any]:
    """The last step with its other values, and the step resumed from, as far as the lines say."""
    found: dict[str, Any] = {}
    resumed = last_line(data, b"resumed step=")
    if resumed is not None and is_step(resumed.split()[1][5:]):
        found["resume_step"] = int(resumed.split()[1][5:])
    words = (last_line(data, b"step=") or "").split()
    if words and is_step(words[0][5:]):
        found["step"] = int(words[0][5:])
        found["metrics"] = dict(number(word) for word in words[1:] if "=" in word)
    return found


def is_step(text: str) -> bool:
    """A step number, of what programs may print."""
    return re.fullmatch(r"[0-9]{1,15}", text) is not None


def last_line(data: bytes, word: bytes) -> str | None:
    """The text of the last stamped line that starts with the word."""
    at = data.rfind(b" " + word)
    while at >= 0:
        start = data.rfind(b"\n", 0, at) + 1
        if b" " not in data[start:at]:
            return data[at + 1 : data.find(b"\n", at)].decode("utf-8", "replace")
        at = data.rfind(b" " + word, 0, at)
    return None


def number(word: str) -> tuple[str, float | str]:
    """A key and its value, a number where it is one."""
    key, _, value = word.partition("=")
    try:
        return key, float(value)
    except ValueError:
        return key, value


# ---------------------------------------------------------------------------- Cloud Storage


class Bucket:
    """Two calls of the Cloud Storage JSON API, as the worker's own service account."""

    def __init__(self, endpoint: str, bucket: str) -> None:
        redirection = redirected()
        self.endpoint = redirection or endpoint
        self.is_anonymous = redirection is not None
        self.bucket = quote(bucket, safe="")
        self.token: str | None = None
        self.token_until = 0.0

    def download(self, key: str, path: Path) -> None:
        """Write an object to a file; raises OSError."""
        url = f"/storage/v1/b/{self.bucket}/o/{quote(key, safe='')}?alt=media"
        with self.reply("GET", url) as reply, path.open("wb") as file:
            if reply.status != 200:
                raise OSError(f"{key}: {reply.status} {reply.reason}")
            for block in iter(lambda: reply.read(BLOCK_BYTES), b""):
                file.write(block)

    def upload(self, key: str, path: Path, start: int, end: int) -> None:
        """Create an object from a part of a file; one that exists already is left alone."""
        name = json.dumps({"name": key})
        head = (
            f"--part\r\nContent-Type: application/json\r\n\r\n{name}\r\n"
            "--part\r\nContent-Type: text/plain\r\n\r\n"
        ).encode()
        tail = b"\r\n--part--\r\n"
        url = f"/upload/storage/v1/b/{self.bucket}/o?uploadType=multipart&ifGenerationMatch=0"
        headers = {
            "Content-Type": "multipart/related; boundary=part",
            "Content-Length": str(len(head) + end - start + len(tail)),
        }
        body = framed(path, start, end, head, tail)
        with self.reply("POST", url, body, headers) as reply:
            reply.read()
            if reply.status not in (200, 412):
                raise OSError(f"{key}: {reply.status} {reply.reason}")

    @contextlib.contextmanager
    def reply(
        self,
        method: str,
        url: str,
        body: Iterator[bytes] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Iterator[http.client.HTTPResponse]:
        """Send one request; OSError whatever goes wrong."""
        connection = connect(self.endpoint, HTTP_TIMEOUT_S)
        try:
            connection.request(method, url, body, {**(headers or {}), **self.authorization()})
            with connection.getresponse() as reply:
                yield reply
        except http.client.HTTPException as error:
            raise OSError(str(error)) from error
        finally:
            connection.close()

    def authorization(self) -> dict[str, str]:
        """The header that carries the service account's token; empty when there is none."""
        if self.is_anonymous:
            return {}
        if time.monotonic() > self.token_until:
            found = metadata("instance/service-accounts/default/token")
            grant = json.loads(found) if found else {}
            self.token = grant.get("access_token")
            self.token_until = time.monotonic() + float(grant.get("expires_in", 60)) * 0.9
        return {"Authorization": f"Bearer {self.token}"} if self.token else {}


def redirected() -> str | None:
    """Where this worker's environment sends every client of Cloud Storage, without credentials.

    As Google's own clients have it, which a program on the same worker may be using.
    """
    host = os.environ.get("STORAGE_EMULATOR_HOST")
    if not host:
        return None
    return host if "://" in host else f"http://{host}"


def framed(path: Path, start: int, end: int, head: bytes, tail: bytes) -> Iterator[bytes]:
    """A part of a file between two texts, in blocks."""
    yield head
    with path.open("rb") as file:
        file.seek(start)
        while start < end:
            block = file.read(min(BLOCK_BYTES, end - start))
            start += len(block)
            yield block
    yield tail


def connect(endpoint: str, timeout_s: float) -> http.client.HTTPConnection:
    """A connection to the host of a base URL."""
    address = urlsplit(endpoint)
    secure = address.scheme == "https"
    kind = http.client.HTTPSConnection if secure else http.client.HTTPConnection
    return kind(address.hostname or "", address.port, timeout=timeout_s)


def metadata(path: str) -> str | None:
    """A value of the metadata server, or None."""
    host = os.environ.get("GCE_METADATA_HOST", "metadata.google.internal")
    connection = connect(f"http://{host}", METADATA_TIMEOUT_S)
    try:
        connection.request(
            "GET", f"/computeMetadata/v1/{path}", headers={"Metadata-Flavor": "Google"}
        )
        with connection.getresponse() as reply:
            text = reply.read().decode()
            return text if reply.status == 200 else None
    except (OSError, http.client.HTTPException):
        return None
    finally:
        connection.close()


class Uploader(threading.Thread):
    """Sends the log to the bucket in segments, named by the offset of their first byte."""

    def __init__(self, bucket: Bucket, prefix: str, log: Log) -> None:
        super().__init__(daemon=True)
        self.bucket = bucket
        self.prefix = prefix
        self.log = log
        self.uploaded_bytes = 0
        self.ending = threading.Event()

    def run(self) -> None:
        """A segment every 15 s; at the end whatever is left, for a while."""
        while not self.ending.wait(SEGMENT_EVERY_S):
            self.segment()
        deadline = time.monotonic() + LAST_UPLOAD_S
        while self.uploaded_bytes < self.log.size_bytes and time.monotonic() < deadline:
            if not self.segment():
                time.sleep(0.5)

    def segment(self) -> bool:
        """Send one segment; False when it could not be sent."""
        start = self.uploaded_bytes
        end = min(self.log.size_bytes, start + SEGMENT_BYTES)
        if start == end:
            return True
        try:
            self.bucket.upload(f"{self.prefix}/{start:012d}", self.log.path, start, end)
        except (OSError, ValueError):
            return False
        self.uploaded_bytes = end
        return True


# ---------------------------------------------------------------------------- the run


class Run:
    """One attempt on this worker, from its config to its final status."""

    def __init__(self, directory: Path, config: Mapping[str, Any]) -> None:
        self.directory = directory
        self.config = config
        self.log = Log(directory / "log")
        bucket = Bucket(config["endpoint"], config["bucket"])
        self.uploader = Uploader(bucket, config["logs"], self.log)
        self.status: dict[str, Any] = {"phase": "preparing", "agent_pid": os.getpid()}
        self.written: dict[str, Any] = {}
        self.written_at = 0.0
        self.wake, self.waker = os.pipe()
        self.terminated = False
        self.kill_at: float | None = None

    def main(self) -> None:
        """Prepare, wait, run, upload."""
        self.listen()
        self.uploader.start()
        self.report()
        ready = all(self.stage(name, argv) for name, argv in self.preparation())
        if ready:
            self.report(phase="prepared")
            if self.released():
                self.stage("run", shell(self.config["run"]))
        self.uploader.ending.set()
        self.uploader.join()
        self.report(closed=True)

    def preparation(self) -> list[tuple[str, list[str]]]:
        """What comes before the barrier; the fetch is another process, to give its memory back."""
        stages = []
        if self.config.get("workdir"):
            program = str(Path(__file__).resolve())
            stages.append(("fetch", [sys.executable, program, "fetch", str(self.directory)]))
        if self.config.get("setup"):
            stages.append(("setup", shell(self.config["setup"])))
        return stages

    def listen(self) -> None:
        """Signals wake the loop: SIGTERM stops, SIGUSR1 says look at DIR, SIGCHLD at the child."""
        for end in (self.wake, self.waker):
            os.set_blocking(end, False)
        signal.set_wakeup_fd(self.waker, warn_on_full_buffer=False)
        signal.signal(signal.SIGTERM, self.on_term)
        for name in (signal.SIGUSR1, signal.SIGCHLD):
            signal.signal(name, lambda *_: None)

    def on_term(self, *_: object) -> None:
        """The worker shuts down."""
        self.terminated = True

    def stopping(self) -> bool:
        """Somebody asked to stop."""
        return self.terminated or (self.directory / "stop").exists()

    def released(self) -> bool:
        """Wait at the barrier: True to go on, False to stop."""
        with selectors.DefaultSelector() as selector:
            selector.register(self.wake, selectors.EVENT_READ)
            while not (self.directory / "go").exists():
                if self.stopping():
                    self.end("run", None)
                    return False
                self.doze(selector, 1.0)
                self.heartbeat()
        return True

    def stage(self, name: str, argv: list[str]) -> bool:
        """Run one stage to its end; True when it succeeded and nobody asked to stop."""
        if self.stopping():
            self.end(name, None)
            return False
        try:
            process = self.spawn(name, argv)
        except OSError as error:
            self.log.append(f"tpuctl: {argv[0]}: {error.strerror}\n".encode())
            self.end(name, 127)
            return False
        phase = "running" if name == "run" else "preparing"
        self.report(pid=process.pid, pid_started=started(process.pid), phase=phase)
        with process:
            self.pump(process)
        self.log.end_line()
        status = process.returncode
        if name == "run" or status or self.stopping():
            self.end(name, status)
        return status == 0 and not self.stopping()

    def spawn(self, name: str, argv: list[str]) -> subprocess.Popen[bytes]:
        """Start a stage in a process group of its own, its output joined to ours."""
        workdir = self.directory / "workdir"
        workdir.mkdir(exist_ok=True)
        return subprocess.Popen(
            argv,
            cwd=str(self.directory if name == "fetch" else workdir),
            # Python programs print at once: a step line in a buffer is no progress.
            env={**os.environ, "PYTHONUNBUFFERED": "1", **self.config["env"]},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            bufsize=0,
        )

    def pump(self, process: subprocess.Popen[bytes]) -> None:
        """Move what the program prints into the log until it has ended, its children with it."""
        self.kill_at = None
        with selectors.DefaultSelector() as selector:
            selector.register(self.wake, selectors.EVENT_READ)
            selector.register(process.stdout.fileno(), selectors.EVENT_READ)  # type: ignore[union-attr]
            while process.poll() is None:
                self.take(selector, HEARTBEAT_S)
                self.enforce(process)
            # A shell ends at once when it is told to stop; what it started has the grace.
            while self.kill_at is not None and group_lives(process.pid):
                self.take(selector, POLL_S)
                self.enforce(process)
            kill_group(process.pid, signal.SIGKILL)
            deadline = time.monotonic() + LEFTOVERS_S
            while len(selector.get_map()) > 1 and time.monotonic() < deadline:
                self.take(selector, LEFTOVERS_S)
        # Until the last of them is gone it holds the chips, and the next attempt cannot have them.
        deadline = time.monotonic() + DYING_S
        while group_lives(process.pid) and time.monotonic() < deadline:
            time.sleep(POLL_S)

    def take(self, selector: selectors.BaseSelector, timeout_s: float) -> None:
        """Wait for a signal or for output, and log the output."""
        if self.status != self.written:
            timeout_s = STATUS_EVERY_S
        for source in self.doze(selector, timeout_s):
            block = os.read(source, BLOCK_BYTES)
            if not block:
                selector.unregister(source)
            self.status.update(progress(self.log.feed(block)) if block else {})
        self.heartbeat()

    def doze(self, selector: selectors.BaseSelector, timeout_s: float) -> list[int]:
        """Wait; the descriptors of the program that have something to read."""
        if self.kill_at is not None:
            timeout_s = min(timeout_s, max(0.0, self.kill_at - time.monotonic()))
        ready = [key.fd for key, _ in selector.select(timeout_s)]
        if self.wake in ready:
            ready.remove(self.wake)
            os.read(self.wake, 1024)
        return ready

    def enforce(self, process: subprocess.Popen[bytes]) -> None:
        """Carry out a request to stop: SIGTERM first, SIGKILL when the grace is over."""
        if self.kill_at is None and self.stopping():
            self.kill_at = time.monotonic() + self.grace_s()
            kill_group(process.pid, signal.SIGTERM)
        elif self.kill_at is not None and time.monotonic() >= self.kill_at:
            kill_group(process.pid, signal.SIGKILL)
            self.kill_at = time.monotonic() + 1.0

    def grace_s(self) -> float:
        """The grace that the request to stop gives."""
        with contextlib.suppress(OSError, ValueError):
            return float((self.directory / "stop").read_text())
        return GRACE_S

    def end(self, stage: str, returncode: int | None) -> None:
        """Note how the run ended: an exit status, a signal, or a request to stop."""
        signalled = returncode is not None and returncode < 0
        self.report(
            phase="ended",
            stage=stage,
            exit_status=None if signalled else returncode,
            signal=-returncode if returncode is not None and signalled else None,
            stopped=self.stopping(),
            terminated=self.terminated,
        )
        if returncode != 0:
            self.report(preempted=metadata("instance/preempted") == "TRUE")

    def heartbeat(self) -> None:
        """Write the status when it changed, though not too often, or when it is getting old."""
        age_s = time.monotonic() - self.written_at
        if age_s >= HEARTBEAT_S or (self.status != self.written and age_s >= STATUS_EVERY_S):
            self.report()

    def report(self, **changes: Any) -> None:
        """Write DIR/status.json now."""
        self.status.update(changes)
        if time.monotonic() - self.written_at >= STATUS_EVERY_S * 10:
            self.status["rss_bytes"] = group_rss_bytes(self.status.get("pid"))
        self.written, self.written_at = dict(self.status), time.monotonic()
        document = {
            "protocol": PROTOCOL,
            **self.status,
            "updated": round(time.time(), 3),
            "log_bytes": self.log.size_bytes,
            "uploaded_bytes": self.uploader.uploaded_bytes,
        }
        replace(self.directory / "status.json", json.dumps(document))


def shell(line: str) -> list[str]:
    """The argv that gives the user's own line to a shell."""
    program = "/bin/bash" if os.access("/bin/bash", os.X_OK) else "/bin/sh"
    return [program, "-c", line]


def kill_group(group: int, name: int) -> None:
    """Signal a process group that may be gone."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, name)


def group_lives(group: int) -> bool:
    """Whether a process of the group runs, or has ended and not yet let go of its files."""
    try:
        os.killpg(group, 0)
    except (ProcessLookupError, PermissionError):
        return False
    if not Path("/proc/self/stat").exists():
        return True
    return any(entry.name.isdigit() and is_of(group, entry) for entry in Path("/proc").iterdir())


def is_of(group: int, process: Path) -> bool:
    """Whether a directory of /proc is that of a process which lives and is in the group."""
    with contextlib.suppress(OSError):
        fields = (process / "stat").read_bytes().rpartition(b")")[2].split()
        if int(fields[2]) != group:
            return False
        # The first thread of a process may have ended before the others, which hold its files.
        return fields[0] not in (b"Z", b"X") or len(list((process / "task").iterdir())) > 1
    return False


def started(pid: int) -> int | None:
    """When a running process began, in the kernel's ticks; None where the system does not tell."""
    with contextlib.suppress(OSError):
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
        return None if fields[0] in (b"Z", b"X") else int(fields[19])
    return None


def group_rss_bytes(group: int | None) -> int | None:
    """The resident memory of a process group, where the system tells."""
    processes = Path("/proc")
    if not group or not (processes / "self").exists():
        return None
    pages = 0
    for entry in processes.iterdir():
        with contextlib.suppress(OSError, ValueError):
            if entry.name.isdigit() and os.getpgid(int(entry.name)) == group:
                pages += int((entry / "statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def replace(path: Path, text: str) -> None:
    """Write a file at once: readers see the old one or the new one."""
    new = path.with_name(path.name + ".new")
    new.write_text(text)
    new.replace(path)


# ---------------------------------------------------------------------------- the workdir


def fetch(directory: Path) -> int:
    """Download the workdir, verify it, and unpack it beneath DIR/workdir."""
    config = json.loads((directory / "config.json").read_text())
    archive = directory / "workdir.tar.gz"
    if not downloaded(Bucket(config["endpoint"], config["bucket"]), config["workdir"], archive):
        return 1
    if digest(archive) != config["workdir_sha256"]:
        sys.stderr.write("tpuctl: the workdir is not what was submitted\n")
        return 1
    unpack(archive, directory / "workdir")
    return 0


def downloaded(bucket: Bucket, key: str, path: Path) -> bool:
    """Download with a few more tries; False when none succeeded."""
    for attempt in range(FETCH_ATTEMPTS):
        try:
            bucket.download(key, path)
            return True
        except (OSError, ValueError) as error:
            sys.stderr.write(f"tpuctl: cannot fetch the workdir: {error}\n")
        time.sleep(min(8.0, 0.5 * 2**attempt))
    return False


def digest(path: Path) -> str:
    """The SHA-256 of a file."""
    import hashlib

    total = hashlib.sha256()
    with path.open("rb") as file:
        for block in iter(lambda: file.read(BLOCK_BYTES), b""):
            total.update(block)
    return total.hexdigest()


def unpack(archive: Path, target: Path) -> None:
    """Write the regular files of an archive beneath a directory of our own; links are not made."""
    import shutil
    import tarfile

    with tarfile.open(archive, "r:gz") as tar:
        for member in tar:
            parts = member.name.split("/")
            source = tar.extractfile(member) if member.isreg() else None
            if source is None or {"", ".", ".."} & set(parts):
                raise ValueError(f"the workdir holds what is not a plain file: {member.name!r}")
            path = target.joinpath(*parts)
            path.parent.mkdir(parents=True, exist_ok=True)
            with source, path.open("xb") as file:
                shutil.copyfileobj(source, file, BLOCK_BYTES)
            path.chmod(0o755 if member.mode & 0o100 else 0o644)


# ---------------------------------------------------------------------------- watching


class Watch:
    """Streams a run's log and status to the other end of an SSH connection."""

    def __init__(self, directory: Path, offset: int | None) -> None:
        self.directory = directory
        self.offset = offset
        self.sent: dict[str, Any] = {}
        self.sent_at = 0.0

    def main(self) -> None:
        """Until the run is over and everything was sent, or nobody reads any more."""
        self.send({"protocol": PROTOCOL})
        while True:
            # In this order the log that is sent never lags behind the status that follows it.
            alive = is_alive(self.directory)
            status = read_status(self.directory) or {}
            self.send_log(status)
            if status != self.sent:
                self.send({"status": status})
                self.sent = status
            if status.get("closed") or not alive:
                self.send({"gone": not status.get("closed", False)})
                return
            if time.monotonic() - self.sent_at > KEEPALIVE_S:
                self.send({})  # fails when nobody reads any more
            time.sleep(POLL_S)

    def send_log(self, status: Mapping[str, Any]) -> None:
        """What the log has grown by; from what is not in the bucket yet, unless told otherwise."""
        if self.offset is None:
            self.offset = int(status.get("uploaded_bytes", 0))
        with contextlib.suppress(FileNotFoundError), (self.directory / "log").open("rb") as file:
            file.seek(self.offset)
            for block in iter(lambda: file.read(BLOCK_BYTES), b""):
                self.send({"offset": self.offset, **encoded(block)})
                self.offset += len(block)

    def send(self, message: Mapping[str, Any]) -> None:
        """One JSON line."""
        sys.stdout.write(json.dumps(message) + "\n")
        sys.stdout.flush()
        self.sent_at = time.monotonic()


def encoded(block: bytes) -> dict[str, str]:
    """Bytes as JSON can carry them."""
    try:
        return {"log": block.decode("utf-8")}
    except UnicodeDecodeError:
        return {"log64": base64.b64encode(block).decode("ascii")}


def read_status(directory: Path) -> dict[str, Any] | None:
    """DIR/status.json, or None."""
    try:
        status: dict[str, Any] = json.loads((directory / "status.json").read_text())
    except FileNotFoundError:
        return None
    return status


def is_alive(directory: Path) -> bool:
    """The agent of that run holds its lock."""
    try:
        with (directory / "lock").open() as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except FileNotFoundError:
        return False
    return False


# ---------------------------------------------------------------------------- the commands


def run(directory: Path) -> int:
    """Start the run in the background, once: a second call changes nothing."""
    with (directory / "lock").open("a") as lock:  # the copy of a fork keeps it held
        while read_status(directory) is None:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                time.sleep(POLL_S)  # another `run` that is about to write its status, or a watcher
                continue
            config = json.loads((directory / "config.json").read_text())
            evict(directory, config["job"])
            if not detached(directory):
                Run(directory, config).main()
            return 0
    return 0


def evict(directory: Path, job: str) -> None:
    """End earlier attempts of the job that still run here: two never run at once on a worker."""
    earlier = [each for each in directory.parent.glob(f"{job}-a*") if each != directory]
    for each in earlier:
        touch(each, "stop", "1")
    deadline = time.monotonic() + GRACE_S
    while any(is_running(each) for each in earlier) and time.monotonic() < deadline:
        time.sleep(POLL_S)
    for each in earlier:
        end_program(each)


def end_program(directory: Path) -> None:
    """Kill what a run still has running: its agent was killed, or gave it a longer grace."""
    status = read_status(directory) or {}
    pid, began = status.get("pid"), status.get("pid_started")
    watched = is_alive(directory) and status.get("phase") == "running"
    if pid is None or not (watched or (began is not None and started(pid) == began)):
        return  # another process may have the number by now
    deadline = time.monotonic() + DYING_S
    while group_lives(pid) and time.monotonic() < deadline:
        kill_group(pid, signal.SIGKILL)
        time.sleep(POLL_S)


def is_running(directory: Path) -> bool:
    """The program of that run has not ended, or its agent could still start it."""
    status = read_status(directory) or {}
    return is_alive(directory) and status.get("phase") != "ended"


def detached(directory: Path) -> bool:
    """Fork into the background: True in the one that was called, False in the one that goes on."""
    if os.fork():
        os.wait()
        return True
    os.setsid()
    if os.fork():
        os._exit(0)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    for target, name, mode in ((0, os.devnull, os.O_RDONLY), (1, os.devnull, os.O_WRONLY)):
        os.dup2(os.open(name, mode), target)
    os.dup2(os.open(directory / "agent.err", flags, 0o600), 2)
    return False


def touch(directory: Path, name: str, text: str) -> int:
    """Leave word for the agent, and wake it."""
    replace(directory / name, text)
    status = read_status(directory)
    if status and is_alive(directory):
        with contextlib.suppress(ProcessLookupError):
            os.kill(status["agent_pid"], signal.SIGUSR1)
    return 0


def show(directory: Path) -> int:
    """Print the status."""
    status = read_status(directory)
    if status is None:
        return 1
    sys.stdout.write(json.dumps({**status, "alive": is_alive(directory)}) + "\n")
    return 0


def watch(directory: Path, offset: int | None) -> int:
    """Stream until the run is over."""
    Watch(directory, offset).main()
    return 0


def main(argv: list[str]) -> int:
    """Parse and do."""
    parser = argparse.ArgumentParser(prog="agent.py")
    parser.add_argument("verb", choices=["run", "start", "stop", "status", "watch", "fetch"])
    parser.add_argument("directory", type=Path)
    parser.add_argument("--grace", type=float, default=GRACE_S)
    parser.add_argument("--offset", type=int)
    asked = parser.parse_args(argv)
    directory = asked.directory.absolute()
    verbs = {
        "run": lambda: run(directory),
        "fetch": lambda: fetch(directory),
        "status": lambda: show(directory),
        "start": lambda: touch(directory, "go", ""),
        "stop": lambda: touch(directory, "stop", str(asked.grace)),
        "watch": lambda: watch(directory, asked.offset),
    }
    return verbs[asked.verb]()


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        sys.exit(1)
