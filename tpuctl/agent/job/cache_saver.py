"""Sends the new files of a compilation cache to its bucket while a program runs. Python 3.8."""

from __future__ import annotations

import os
import stat
import threading
import time

from tpuctl.agent.job.logs.fork_call import call_in_fork
from tpuctl.agent.job.state.cache_directory import VARIABLES, cache_directory

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

SAVE_EVERY_S = 30.0
SETTLED_S = 5.0
"""A file that was written to since may not be whole, as long as the program runs."""
PATIENCE_S = 30.0
"""How long the end of a run waits for it."""
BLOCK_BYTES = 256 * 1024


class CacheSaver(threading.Thread):
    """Creates an object for each file that the bucket did not give; never replaces one."""

    def __init__(self, endpoint: str, url: str) -> None:
        super().__init__(daemon=True)
        self.endpoint = endpoint
        self.bucket, _, prefix = url[len("gs://") :].rstrip("/").partition("/")
        self.prefix = f"{prefix}/" if prefix else ""
        self.directory = cache_directory(url)
        self.known = set(self.files())
        self.saved = 0
        self.why_not = ""
        self.ending = threading.Event()

    def variables(self) -> dict[str, str]:
        """Return the variables that tell a program where the cache is."""
        return dict.fromkeys(VARIABLES, self.directory)

    def run(self) -> None:
        """Save every 30 s until `finish` is called, in forks: they take their memory with them."""
        while not self.ending.wait(SAVE_EVERY_S):
            self.save_settled()

    def save_settled(self) -> None:
        """Save the files that nobody has written to for SETTLED_S."""
        for name in self.settled(time.time() - SETTLED_S):
            self.save(name, is_apart=True)

    def finish(self, *, is_whole: bool) -> None:
        """Save what is left, for PATIENCE_S at most; `is_whole`: no file was cut by a signal."""
        deadline = time.monotonic() + PATIENCE_S
        self.ending.set()
        if self.ident is not None:
            self.join(PATIENCE_S)
        for name in self.settled(time.time() - (0.0 if is_whole else SETTLED_S)):
            if time.monotonic() < deadline:
                self.save(name)

    def summary(self) -> str:
        """Return how many files the bucket got, and why others are missing."""
        why = f"; the last error: {self.why_not}" if self.why_not else ""
        what = "1 new file" if self.saved == 1 else f"{self.saved} new files"
        return f"{what} of the cache saved{why}"

    def files(self) -> Iterator[str]:
        """Yield the paths of all files, relative to the directory."""
        for parent, _, names in os.walk(self.directory):
            for name in names:
                yield os.path.relpath(os.path.join(parent, name), self.directory)

    def settled(self, before_s: float) -> list[str]:
        """Return the regular files that are not in the bucket and were last written before."""
        found = []
        for name in self.files():
            if name not in self.known:
                about = self.about(name)
                if about and stat.S_ISREG(about.st_mode) and about.st_mtime <= before_s:
                    found.append(name)
        return found

    def about(self, name: str) -> os.stat_result | None:
        """Return what the disk says of a file; None when it is gone."""
        try:
            return os.lstat(os.path.join(self.directory, name))
        except OSError:
            return None

    def save(self, name: str, *, is_apart: bool = False) -> None:
        """Send one file; what goes wrong is kept for the end, and it is tried again."""
        try:
            created = call_in_fork(lambda: self.send(name)) if is_apart else self.send(name)
        except OSError as error:
            self.why_not = str(error)
            return
        self.known.add(name)
        self.saved += created

    def send(self, name: str) -> int:
        """Create the object of a file; return 1, or 0 when it exists. Raises OSError."""
        from tpuctl.agent.job.objects import ObjectClient

        client = ObjectClient(self.endpoint, self.bucket)
        with open(os.path.join(self.directory, name), "rb") as file:
            size_bytes = os.fstat(file.fileno()).st_size
            blocks = iter(lambda: file.read(BLOCK_BYTES), b"")
            return int(client.create(f"{self.prefix}{name}", blocks, size_bytes))
