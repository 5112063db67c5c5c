"""`python3 -m tpuctl.serving MODULE`: serves the model of a module."""

import os
import sys

from tpuctl.serving.command import run_command

if __name__ == "__main__":
    code, is_thread_alive = run_command(sys.argv[1:], os.environ)
    sys.stdout.flush()
    sys.stderr.flush()
    if is_thread_alive:
        os._exit(code)  # its predict does not come back
    sys.exit(code)
