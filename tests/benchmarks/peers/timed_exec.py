"""tpuctl, and the seconds from its first connect to a port: `timed_exec.py PORT ARGV...`.

Its output goes to stderr, the seconds to stdout. The interpreter itself tells of every connect.
"""

import sys
import time

from tpuctl.cli.app import main
from tpuctl.cli.shell.runtime import Runtime

connects: list[float] = []
port = int(sys.argv[1])


def look(event: str, arguments: tuple) -> None:
    if event == "socket.connect" and arguments[1][1] == port:
        connects.append(time.perf_counter())


sys.addaudithook(look)
code = main(sys.argv[2:], Runtime(out=sys.stderr))
print(time.perf_counter() - connects[0])
sys.exit(code)
