"""`python -m localsim.bench.slice_worker LIMIT_S`: one worker of a slice that is measured."""

import json
import os
import sys
import threading

from localsim.bench.collectives import collective_rows
from localsim.core import Mesh, MeshError

MEETING_S = 30.0
"""All workers start at once, and share the processors of this machine."""


def main() -> str | None:
    """Measure; worker 0 prints a JSON object a line. Returns the error, None without one."""
    threading.Thread(target=_end_with_the_parent, daemon=True).start()
    try:
        with Mesh.connect(meeting_s=MEETING_S) as mesh:
            for row in collective_rows(mesh, float(sys.argv[1])):
                if mesh.worker_id == 0:
                    sys.stdout.write(json.dumps(row) + "\n")
                    sys.stdout.flush()
    except MeshError as error:
        return str(error)
    return None


def _end_with_the_parent() -> None:
    """Its end of our stdin closes, however it ends."""
    os.read(0, 1)  # not sys.stdin, whose lock the end of Python would wait for
    os._exit(1)


if __name__ == "__main__":
    sys.exit(main())
