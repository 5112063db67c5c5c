"""The entry of the archive that `data` ships to a worker: modules of the agent and a manifest.

Run as `python3 ARCHIVE`. The archive is removed at once: everything of it is read by then.
Standard library only, Python 3.8.
"""

from __future__ import annotations

import json
import sys
import zipfile
from pathlib import Path

from tpuctl.agent.copy import packing, receiving
from tpuctl.agent.data import fetcher, lister, target_tree

VERBS = {
    "fetch": fetcher.fetch,
    "list": lister.list_files,
    "receive": receiving.receive,
    "send": packing.send,
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
