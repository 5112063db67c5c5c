"""A proxy in front of the storage service that does something at one of the requests."""

import re
import socket
import struct
import threading
from collections.abc import Callable
from contextlib import suppress
from urllib.parse import urlsplit

BEGINNING = re.compile(rb"(GET|POST|PUT|PATCH|DELETE|HEAD) /")
BLOCK_BYTES = 65536


class CuttingProxy:
    """Passes everything on, and counts requests; the cut-th one (from 1) is where it is cut.

    `late`: the request has its effect, and its answer is not passed on. Else nobody hears of it.
    """

    def __init__(self, endpoint: str) -> None:
        self.server = urlsplit(endpoint).netloc
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self.listener.getsockname()[1]}"
        self.count = 0
        self.cut = 0
        self.late = False
        self.on_cut: Callable[[], object] = lambda: None
        self._lock = threading.Lock()
        self._open: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def arm(self, cut: int, *, late: bool, on_cut: Callable[[], object]) -> None:
        """Count from one again."""
        self.count, self.cut, self.late, self.on_cut = 0, cut, late, on_cut

    def close(self) -> None:
        """End every connection."""
        self.listener.close()
        for each in self._open:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self.listener.accept()
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        host, _, port = self.server.partition(":")
        with client, socket.create_connection((host, int(port))) as server:
            self._open += [client, server]
            struck = threading.Event()
            asking = threading.Thread(target=self._ask, args=(client, server, struck), daemon=True)
            asking.start()
            self._answer(client, server, struck)
            with suppress(OSError):
                client.shutdown(socket.SHUT_RDWR)
            asking.join()

    def _ask(self, client: socket.socket, server: socket.socket, struck: threading.Event) -> None:
        with suppress(OSError):
            while data := client.recv(BLOCK_BYTES):
                if BEGINNING.match(data) and self._is_cut():
                    struck.set()
                    if not self.late:
                        self.on_cut()
                        return reset(client, server)
                # The server answers to its own name alone; both names are as long.
                server.sendall(data.replace(self.address.encode(), self.server.encode()))
            server.shutdown(socket.SHUT_WR)
        return None

    def _answer(
        self, client: socket.socket, server: socket.socket, struck: threading.Event
    ) -> None:
        with suppress(OSError):
            while data := server.recv(BLOCK_BYTES):
                if struck.is_set():
                    self.on_cut()
                    return reset(client, server)
                client.sendall(data.replace(self.server.encode(), self.address.encode()))
        with suppress(OSError):
            client.shutdown(socket.SHUT_WR)
        return None

    def _is_cut(self) -> bool:
        with self._lock:
            self.count += 1
            return self.count == self.cut


def reset(*connections: socket.socket) -> None:
    """End connections without a word; who waits for them is woken."""
    for each in connections:
        with suppress(OSError):
            each.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            each.shutdown(socket.SHUT_RD)
        each.close()
