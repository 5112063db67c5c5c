"""The entry of what `data` ships to a worker: an archive of this package and of a manifest.

Run as `python3 ARCHIVE`. The archive is removed at once: everything of it is read by then.
Standard library only, Python 3.8.
"""

from __future__ import annotations

import json
import sys
import zipfile
from pathlib import Path

from tpuctl.agent.data import fetcher, file_transfer, lister, target_tree

VERBS = {
    "fetch": fetcher.fetch,
    "list": lister.list_files,
    "receive": file_transfer.receive,
    "send": file_transfer.send,
}


def main(archive: str) -> int:
    """Do what the manifest says."""
    with zipfile.ZipFile(archive) as shipped:
        manifest = json.loads(shipped.read("manifest.json").decode("utf-8"))
    Path(archive).unlink()
    try:
        return VERBS[manifest["verb"]](manifest)
    except (OSError, target_tree.RefusedNameError) as error:
        sys.exit(str(error))


if __name__ == "__main__":
    sys.exit(main(sys.argv[0]))
