"""The process that receives the bytes of large uploads: from a client's socket into a file.

It gives way to the simulator, which answers everybody else meanwhile: it is nicer, as nice(1) says.
The simulator starts it as a program of its own and sends it orders; a child obeys each of them.
"""

import errno
import os
import select
import signal
import socket
import struct
import sys
from collections.abc import Callable
from contextlib import suppress

ORDER = struct.Struct("!QI")
"""How many bytes are to come, and the CRC-32C of those before; with it come three descriptors: the
client's socket, the file, and a socket for the report. Its end before the report is the order to
stop."""
REPORT = struct.Struct("!QIi")
"""How many bytes are in the file, the CRC-32C with them, and the error number of a failed write."""
_NICENESS = 5
_BLOCK_BYTES = 256 * 1024


def main() -> None:
    """Obey the orders that come through the descriptor in argv until its other end is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal's Ctrl-C is the simulator's to obey
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    os.nice(_NICENESS)
    sys.path.append(sys.argv[2])
    import google_crc32c

    orders = socket.socket(fileno=int(sys.argv[1]))
    while True:
        data, descriptors, _, _ = socket.recv_fds(orders, ORDER.size, 3)
        if not data:
            return
        if os.fork() == 0:
            orders.close()
            _obey(data, descriptors, google_crc32c.extend)
            os._exit(0)
        for descriptor in descriptors:
            os.close(descriptor)


def _obey(order: bytes, descriptors: list[int], extend: Callable[[int, bytes], int]) -> None:
    client, file, report = descriptors
    size_bytes, crc32c = ORDER.unpack(order)
    outcome = receive(socket.socket(fileno=client), file, size_bytes, crc32c, report, extend)
    with suppress(BrokenPipeError):  # the simulator has ended
        os.write(report, REPORT.pack(*outcome))


def receive(
    client: socket.socket,
    file: int,
    size_bytes: int,
    crc32c: int,
    report: int,
    extend: Callable[[int, bytes], int],
) -> tuple[int, int, int]:
    """Write the next bytes of a client to a file until all are there, or it or the simulator ends.

    Returns what a report says. What comes after a failed write is read and dropped, as the client
    first sends all of it.
    """
    left, written, error = size_bytes, 0, 0
    while left and (data := _next_bytes(client, min(left, _BLOCK_BYTES), report)):
        left -= len(data)
        try:
            if not error:
                write_all(file, data)
                written += len(data)
                crc32c = extend(crc32c, data)
        except OSError as failure:
            error = failure.errno or errno.EIO
    return written, crc32c, error


def _next_bytes(client: socket.socket, most: int, report: int) -> bytes:
    """What a non-blocking socket gets next; nothing when it ends, or the order to stop comes."""
    events = select.poll()
    events.register(client, select.POLLIN)
    events.register(report, select.POLLIN)
    while report not in dict(events.poll()):
        with suppress(BlockingIOError):
            try:
                return client.recv(most)
            except ConnectionError:
                return b""
    return b""


def write_all(file: int, data: bytes) -> None:
    """Write all of the data to a descriptor."""
    view = memoryview(data)
    while view:
        view = view[os.write(file, view) :]


if __name__ == "__main__":
    main()
