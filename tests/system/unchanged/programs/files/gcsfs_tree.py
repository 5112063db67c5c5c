"""gcsfs puts, finds, moves, reads and deletes a tree: gcsfs_tree.py gs://BUCKET/FOLDER."""

import os
import sys
import tempfile
from pathlib import Path

import fsspec

files, folder = fsspec.url_to_fs(sys.argv[1])
body = os.urandom(6 << 20)
with tempfile.TemporaryDirectory() as local:
    (Path(local) / "a" / "b").mkdir(parents=True)
    (Path(local) / "a" / "large.bin").write_bytes(body)
    (Path(local) / "a" / "b" / "ü #1.bin").write_bytes(body[:1000])
    files.put(f"{local}/a", folder, recursive=True)
files.mv(f"{folder}/large.bin", f"{folder}/b/moved.bin")
found = files.glob(f"{folder}/**/*.bin")
with files.open(f"{folder}/b/moved.bin", block_size=1 << 20) as file:
    file.seek(3 << 20)
    assert file.read(100_000) == body[3 << 20 :][:100_000]
assert files.cat_file(f"{folder}/b/moved.bin") == body
assert files.cat_file(f"{folder}/b/ü #1.bin") == body[:1000]
files.rm(folder, recursive=True)
print(f"{len(found)} files found, moved and read; {len(files.find(folder))} left")
