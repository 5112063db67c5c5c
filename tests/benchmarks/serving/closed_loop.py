"""A closed loop of clients on keep-alive connections: `closed_loop.py PORT PATH CLIENTS SECONDS`.

The body is read from standard input. Prints one JSON object: requests per second and, in
milliseconds, the median and the 99th percentile of their latency.
"""

import json
import selectors
import socket
import sys
import time


class ClosedLoopClient:
    """One connection: the next request is sent when the answer to the last one is whole."""

    def __init__(self, port, request):
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._request = request
        self._received = b""

    def send(self):
        self._received = b""
        self._sent_s = time.perf_counter()
        self.socket.sendall(self._request)

    def receive(self):
        """The latency in seconds once the answer is whole, None before."""
        data = self.socket.recv(65536)
        if not data:
            raise ConnectionError("the server closed a connection")
        self._received += data
        head, mark, body = self._received.partition(b"\r\n\r\n")
        if not mark or len(body) < length_of(head):
            return None
        took_s = time.perf_counter() - self._sent_s
        if not head.startswith(b"HTTP/1.1 200"):
            raise ValueError(self._received[:300].decode())
        return took_s


def length_of(head):
    lowered = head.lower()
    return int(lowered.partition(b"content-length:")[2].partition(b"\r\n")[0])


def main(port, path, count, seconds):
    body = sys.stdin.buffer.read()
    head = (
        f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    selector = selectors.DefaultSelector()
    for _ in range(count):
        client = ClosedLoopClient(port, head.encode() + body)
        selector.register(client.socket, selectors.EVENT_READ, client)
        client.send()
    began_s = time.perf_counter()
    latencies = []
    while time.perf_counter() - began_s < seconds:
        for key, _ in selector.select(1):
            took_s = key.data.receive()
            if took_s is not None:
                latencies.append(took_s)
                key.data.send()
    rate = len(latencies) / (time.perf_counter() - began_s)
    latencies.sort()
    p50, p99 = (latencies[int(len(latencies) * part)] * 1000 for part in (0.5, 0.99))
    print(json.dumps({"per_s": rate, "p50_ms": p50, "p99_ms": p99}))


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2], int(sys.argv[3]), float(sys.argv[4]))
