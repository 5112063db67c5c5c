"""Real checkpoints of other frameworks (tests/data/checkpoints), in a directory or in a bucket."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from unit.checkpoint.memory_store import MemoryBucket, MemoryStore

DATA = Path(__file__).parents[3] / "data" / "checkpoints"
LAST = ("commit_success.txt", ".metadata", "model.safetensors.index.json")
"""What each framework writes last; of Orbax once for an item and once for the step."""
SAVED_S = 1_790_000_000
STEPS = ["orbax/100", "orbax_items/ckpt_000005", "orbax_single/zarr2", "orbax_single/zarr3",
         "dcp/step-100", "safetensors/checkpoint-100"]  # fmt: skip


class Bucket(MemoryStore):
    """A bucket with checkpoints below gs://bucket/run."""

    url = "gs://bucket/run"


def in_order(root: Path) -> list[Path]:
    """The files below a directory in the order in which they were written."""
    files = [path for path in root.rglob("*") if path.is_file()]
    return sorted(files, key=lambda path: (path.name in LAST, -len(path.parts), path))


def in_directory(name: str, destination: Path) -> Path:
    """A copy of checkpoints, with the times that a version control does not keep."""
    shutil.copytree(DATA / name, destination)
    for number, path in enumerate(in_order(destination)):
        os.utime(path, (SAVED_S + number, SAVED_S + number))
    return destination


def in_bucket(name: str, *, without: tuple[str, ...] = ()) -> Bucket:
    """The same in a bucket, without some of its objects."""
    store = Bucket(MemoryBucket())
    for path in in_order(DATA / name):
        key = path.relative_to(DATA / name).as_posix()
        if key not in without:
            store.put_if_absent(key, path.read_bytes())
    return store


def flipped(path: Path, bit: int) -> Iterator[None]:
    """Flip a bit of a file, as a disk does: its time stays; then flip it back."""
    status = path.stat()
    for _ in range(2):
        data = bytearray(path.read_bytes())
        data[bit // 8] ^= 1 << bit % 8
        path.write_bytes(data)
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
        yield
