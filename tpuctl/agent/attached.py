"""Run a command for as long as somebody at the other end of standard input is there.

Shipped as `python3 -c SOURCE ARGV...`: an SSH server does not end a command whose client is gone.
The client sends a byte every few seconds; after end-of-file or a long silence this process group
gets SIGHUP, and SIGKILL when it stays. Standard library only, Python 3.8.
"""

import os
import select
import signal
import subprocess
import sys
import threading
import time
from typing import List  # noqa: UP035 - Python 3.8

SILENCE_S = 25
GRACE_S = 3


def main(argv: List[str]) -> int:  # noqa: UP006
    """Run argv; exit as it did, 128 + n when signal n ended it."""
    signal.signal(signal.SIGHUP, lambda _number, _frame: None)  # for the command, not for us
    try:
        process = subprocess.Popen(argv, stdin=subprocess.DEVNULL)
    except OSError as error:
        sys.stderr.write(f"{argv[0]}: {error.strerror}\n")
        return 127 if isinstance(error, FileNotFoundError) else 126
    threading.Thread(target=watch, daemon=True).start()
    status = process.wait()
    end_what_it_left()
    return status if status >= 0 else 128 - status


def end_what_it_left() -> None:
    """Background children hold our outputs open; nothing outlives the command."""
    signal.signal(signal.SIGTERM, lambda _number, _frame: None)
    os.killpg(0, signal.SIGTERM)


def watch() -> None:
    """End the group, ourselves at last, once nobody is there any more."""
    while select.select([0], [], [], SILENCE_S)[0] and os.read(0, 4096):
        pass
    os.killpg(0, signal.SIGHUP)
    time.sleep(GRACE_S)
    os.killpg(0, signal.SIGKILL)


if __name__ == "__main__":
    code = main(sys.argv[1:])
    sys.stderr.flush()
    os._exit(code)
