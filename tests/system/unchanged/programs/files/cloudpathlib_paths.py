"""cloudpathlib walks a bucket as pathlib walks a disk: cloudpathlib_paths.py gs://BUCKET/FOLDER."""

import sys

from cloudpathlib import CloudPath

folder = CloudPath(sys.argv[1])
for name in ("a/one.txt", "a/b/two.txt"):
    (folder / name).write_text(name)
(folder / "a" / "one.txt").copy(folder / "three.txt")
(folder / "a" / "one.txt").unlink()
names = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*.txt"))
print(names, (folder / "three.txt").read_text())
