"""Checkpoints that rot: every flipped bit is found, and the step before is restored instead.

Files are changed behind the store's back, times and all, and what the store knows of their
checksums is taken away: what finds it is the format. Objects that are cut, gone, exchanged or
doubled are found as well, and whole ones are never doubted. Bytes that are damaged on their way
are read again; a few of all this in every run, the counts of the scorecard in the soak.
"""

import gc
import os
import random
import shutil
import time
from collections import Counter
from pathlib import Path

import pytest
import requests

from soak.checkpoints.checkpoint_gangs import Checkpoints, is_right, place
from soak.checkpoints.checkpoint_program import tree
from tpuctl.checkpoint import Checkpointer
from tpuctl.checkpoint.read.step_history import read_history
from tpuctl.checkpoint.read.verification import verify_step
from tpuctl.checkpoint.write import snapshot
from tpuctl.errors import IntegrityError

# Google's library leaves the reply to a download that failed to the garbage collector.
pytestmark = pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")

FLIPS, CLEAN = 1000, 200
STEPS = (10, 20)


def saved(url, client=None):
    """Two steps by four workers, three files each."""
    patch = pytest.MonkeyPatch()
    patch.setattr(snapshot, "FILE_BYTES", 1100)
    workers = [Checkpointer(url, i, 4, fence=1, timeout_s=20, client=client) for i in range(4)]
    try:
        for step in STEPS:
            for worker in workers:
                worker.save(step, tree(step, 1))
            for worker in workers:
                worker.close()
    finally:
        patch.undo()


@pytest.fixture(scope="module")
def rotting(tmp_path_factory):
    """A directory with two steps, and nothing but the format to tell what is in them."""
    directory = tmp_path_factory.mktemp("rotting") / "checkpoints"
    saved(str(directory))
    shutil.rmtree(directory / ".tpuctl-store" / "crc32c")
    return Checkpoints(str(directory))


def parts(checkpoints, step=20):
    """The files that a step is made of, COMMIT last."""
    root = Path(checkpoints.url)
    return [*sorted(root.glob(f"step_{step:012d}/a_*/shard_*")), root / f"step_{step:012d}/COMMIT"]


class Changed:
    """A file with other bytes, its time as it was; put right on leaving."""

    def __init__(self, path, data):
        self.path, self.data = path, data

    def __enter__(self):
        self.status, self.whole = self.path.stat(), self.path.read_bytes()
        if self.data is None:
            self.path.rename(self.path.with_name("away"))
        else:
            self._write(self.data)
        return self

    def __exit__(self, *_):
        if self.data is None:
            self.path.with_name("away").rename(self.path)
        else:
            self._write(self.whole)

    def _write(self, data):
        self.path.write_bytes(data)
        os.utime(self.path, ns=(self.status.st_atime_ns, self.status.st_mtime_ns))


def is_found(checkpoints):
    """Whether the damage to step 20 is noticed by who restores and by who verifies."""
    restored = checkpoints.read()
    falls_back = restored.step == 10 and is_right(checkpoints, restored)
    is_told = [step for step, reason in restored.skipped if reason] == [20]
    step = read_history(checkpoints.store).find(20)
    try:
        verify_step(checkpoints.store, step)
    except IntegrityError:
        return falls_back and is_told
    return False


def is_clean(checkpoints):
    restored = checkpoints.read()
    verify_step(checkpoints.store, read_history(checkpoints.store).find(20))
    return (restored.step, restored.skipped) == (20, ()) and is_right(checkpoints, restored)


def flipped(path, bit):
    data = bytearray(path.read_bytes())
    data[bit // 8] ^= 1 << bit % 8
    return bytes(data)


def flips(checkpoints, draws, count):
    """So many single bits of files that are drawn; how many of them were found."""
    found = Counter()
    for _ in range(count):
        path = draws.choice(parts(checkpoints))
        with Changed(path, flipped(path, draws.randrange(path.stat().st_size * 8))):
            found[is_found(checkpoints)] += 1
    return found


def damages(checkpoints):
    """Every file cut, emptied or gone; every two of the shards exchanged, or one in both places."""
    paths = parts(checkpoints)
    for path in paths:
        data = path.read_bytes()
        for wrong in (b"", data[: len(data) // 2], data[:-1], data + b"\0"):
            yield [(path, wrong)]
        if path.name != "COMMIT":  # without that one there is no such step
            yield [(path, None)]
    for one, other in zip(paths, paths[1:], strict=False):
        yield [(one, other.read_bytes()), (other, one.read_bytes())]
        yield [(one, other.read_bytes())]
    for path in paths:
        before = parts(checkpoints, 10)[paths.index(path)]
        yield [(path, before.read_bytes())]


def count_damages(checkpoints, every):
    found = Counter()
    for changes in list(damages(checkpoints))[::every]:
        changed = [Changed(path, data) for path, data in changes]
        for each in changed:
            each.__enter__()
        found[is_found(checkpoints)] += 1
        for each in reversed(changed):
            each.__exit__()
    return found


def test_a_few_flips_are_all_found(rotting):
    assert flips(rotting, random.Random(1), 10) == {True: 10}
    assert count_damages(rotting, 20).keys() == {True}
    assert is_clean(rotting)


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_a_thousand_flips_are_all_found(rotting):
    seed = time.time_ns()
    found = flips(rotting, random.Random(seed), FLIPS)
    others = count_damages(rotting, 1)
    clean = Counter(is_clean(rotting) for _ in range(CLEAN))
    print(f"\nseed {seed}: flips {dict(found)}, other damage {dict(others)}, clean {dict(clean)}")
    assert (found, others.keys(), clean) == ({True: FLIPS}, {True}, {True: CLEAN})


def test_what_is_beside_a_step_does_not_matter_to_it(rotting):
    """A done record has done its work; files of other names are nobody's."""
    root = Path(rotting.url)
    for path in sorted(root.glob("step_000000000020/a_*/done_*")):
        with Changed(path, flipped(path, 77)):
            assert is_clean(rotting)
    shard = parts(rotting)[0]
    for name in ("shard_9-of_4_0.safetensors", "copy of a shard", "shard_0-of_4_99.safetensors"):
        extra = shard.with_name(name)
        extra.write_bytes(shard.read_bytes())
        assert is_clean(rotting)
        extra.unlink()


class Garbles(requests.adapters.HTTPAdapter):
    """One bit of the body of some downloads is another when it arrives."""

    def __init__(self, draws):
        super().__init__()
        self.draws = draws
        self.left = 0
        self.skip = 0
        self.only = ""

    def send(self, request, **arguments):
        response = super().send(request, **arguments)
        if "alt=media" not in request.url or self.only not in request.url:
            return response
        self.skip -= 1
        if self.skip < 0 and self.left:
            self.left -= 1
            self._garble(response)
        return response

    def _garble(self, response):
        read = response.raw.read
        draws = self.draws

        def garbled(*args, **more):
            data = read(*args, **more)
            if not data:
                return data
            changed = bytearray(data)
            changed[draws.randrange(len(data))] ^= 1 << draws.randrange(8)
            return bytes(changed)

        response.raw.read = garbled


@pytest.fixture(scope="module")
def garbled_bucket(tmp_path_factory):
    with place("bucket", tmp_path_factory.mktemp("garbled")) as found:
        checkpoints = found.new()
        saved(checkpoints.url, found.client)
        adapter = Garbles(random.Random(1))
        found.client._http.mount("http://", adapter)
        yield checkpoints, adapter
        gc.collect(1)


def garbled_once(checkpoints, adapter, count):
    """One download of each restore comes damaged: read again, it is right."""
    found = Counter()
    for number in range(count):
        adapter.only, adapter.skip, adapter.left = "", number % 12, 1
        restored = checkpoints.read()
        is_good = (restored.step, restored.skipped) == (20, ()) and adapter.left == 0
        found[is_good and is_right(checkpoints, restored)] += 1
    return found


def test_bytes_damaged_on_their_way_are_read_again(garbled_bucket):
    assert garbled_once(*garbled_bucket, 6) == {True: 6}


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_200_downloads_damaged_on_their_way(garbled_bucket):
    found = garbled_once(*garbled_bucket, 200)
    print(f"\ndamaged once on their way: {dict(found)}")
    assert found == {True: 200}


def test_an_object_that_always_comes_damaged_is_not_used(garbled_bucket):
    checkpoints, adapter = garbled_bucket
    adapter.only, adapter.skip, adapter.left = "step_000000000020%2Fa_", 0, 10**6
    restored = checkpoints.read()
    adapter.left = 0
    assert restored.step == 10
    assert [step for step, _ in restored.skipped] == [20]
    assert is_right(checkpoints, restored)
