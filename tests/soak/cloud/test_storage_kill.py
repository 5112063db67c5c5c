"""kill -9 of the storage service at random instants under load: nothing is lost or torn."""

import json
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from dataclasses import dataclass

import pytest

from soak.cloud.storage_kill_load import Version, Writer, crc32c, run_until_death, stored_objects

WRITERS = 8
WHILE_STARTING = 0.15
"""How many of the kills come before the server is ready."""
LONGEST_LIFE_S = 0.7


@dataclass
class Counts:
    """What came of the kills."""

    kills: int = 0
    acknowledged: int = 0
    lost: int = 0
    torn: int = 0
    wrong_answers: int = 0
    failed_restarts: int = 0
    damaged: int = 0
    left_over: int = 0
    """Files of no object, after a last start."""


class Server:
    """A real server process on one state directory."""

    def __init__(self, directory):
        self.directory = directory
        self.url = ""

    def start(self):
        argv = ["serve", "--state-dir", str(self.directory)]
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-m", "localsim", *argv], stdout=subprocess.PIPE, text=True
        )

    def is_up(self):
        """Whether it serves now; waits for that."""
        line = self.process.stdout.readline()
        self.url = json.loads(line)["storage"] if line else ""
        return bool(line)

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        self.process.stdout.close()

    def is_sound(self):
        """Whether SQLite finds its file whole; looks at a copy, the server's own recovers."""
        copy = self.directory.parent / "copy"
        shutil.rmtree(copy, ignore_errors=True)
        copy.mkdir()
        for file in (self.directory / "storage").glob("objects.sqlite*"):
            shutil.copy(file, copy)
        with closing(sqlite3.connect(copy / "objects.sqlite")) as connection:
            return connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]

    def left_over(self):
        """How many files there are that no object has."""
        path = self.directory / "storage"
        with closing(sqlite3.connect(path / "objects.sqlite")) as connection:
            rows = connection.execute("SELECT value FROM storage_objects, json_each(body_files)")
            named = {name for (name,) in rows}
        return len({file.name for file in path.glob("objects/*/*")} ^ named)


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_100_kills_lose_and_tear_nothing(tmp_path):
    counts = killed(tmp_path, kills=100, seed=time.time_ns())
    print(f"\n{counts}")
    assert counts.acknowledged > 1000
    assert (counts.lost, counts.torn, counts.wrong_answers) == (0, 0, 0)
    assert (counts.failed_restarts, counts.damaged, counts.left_over) == (0, 0, 0)


def killed(tmp_path, *, kills, seed):
    """Kill a server under load so many times, and look at what is left each time."""
    print(f"seed {seed}")
    draws = random.Random(seed)
    counts, server = Counts(), Server(tmp_path / "state")
    writers = [Writer(number, random.Random(draws.random())) for number in range(WRITERS)]
    server.start()
    try:
        die_often(server, writers, counts, kills, draws)
        assert server.is_up()
        look(server, writers, counts)
        counts.left_over = server.left_over()
    finally:
        server.kill()
    return counts


def die_often(server, writers, counts, kills, draws):
    """So many lives and deaths; started again after the last one."""
    while counts.kills < kills:
        if draws.random() < WHILE_STARTING:
            time.sleep(draws.uniform(0.0, 0.5))
            server.kill()
        elif server.is_up():
            look(server, writers, counts)
            live(server, writers, counts, draws.uniform(0.02, LONGEST_LIFE_S))
        else:
            counts.failed_restarts += 1
        counts.kills += 1
        counts.damaged += not server.is_sound()
        server.start()


def live(server, writers, counts, life_s):
    """Let the writers write until the server dies."""

    def die():
        time.sleep(life_s)
        server.kill()

    before = sum(writer.acknowledged for writer in writers)
    failures = run_until_death(writers, server.url, die)
    counts.acknowledged += sum(writer.acknowledged for writer in writers) - before
    counts.wrong_answers += len(failures)
    for failure in failures:
        print(failure)


def look(server, writers, counts):
    """Compare what the writers were told with what there is, and let them go on from there."""
    found = stored_objects(server.url)
    for writer in writers:
        own = {
            name: found.pop(name) for name in list(found) if name.startswith(f"{writer.number}/")
        }
        for name in writer.known.keys() | writer.unanswered.keys() | own.keys():
            compare(writer, name, own.get(name), counts)
        writer.unanswered.clear()
    counts.torn += len(found)


def compare(writer, name, there, counts):
    """One name: what is there must be what was acknowledged, or what got no answer."""
    known = writer.known.pop(name, None)
    possible = [known, *([writer.unanswered[name]] if name in writer.unanswered else [])]
    if there is None:
        counts.lost += None not in possible
        return
    generation, checksum, data = there
    counts.torn += crc32c(data) != checksum
    for version in possible:
        if version is not None and version.data == data:
            counts.lost += version is known and generation != known.generation
            writer.known[name] = Version(version.pieces, generation)
            return
    counts.lost += 1
    print(f"{name} is none of {len(possible)} possible versions")
