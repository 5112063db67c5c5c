"""Runs a program inside the simulated VPC where every bucket has a host name of its own.

    tpuctl local shell -- python tests/contract/foreign/names_inside.py PROGRAM [ARGUMENT ...]

Google's DNS answers `BUCKET.storage.googleapis.com` for every bucket; /etc/hosts cannot. This
program answers DNS on loopback, for those names alone, in a mount namespace in which
/etc/resolv.conf says so. It needs `unshare` and `mount`, and the standard library only.
"""

import os
import socket
import subprocess
import sys
import tempfile
import threading

SUFFIX = ".storage.googleapis.com"
ADDRESS = "10.127.0.1"
INSIDE = "FOREIGN_NAMES_INSIDE"
_HEADER_BYTES = 12
_ANSWER, _NO_SUCH_NAME = 0x8180, 0x8183
_A, _AAAA = 1, 28
_TTL_S = 60


def main(argv: list[str]) -> int:
    """Run the program; its exit status."""
    if INSIDE not in os.environ:
        again = ["unshare", "--mount", "--propagation", "private", sys.executable, __file__]
        os.execvpe(again[0], [*again, *argv], {**os.environ, INSIDE: "1"})  # noqa: S606
    with (
        tempfile.NamedTemporaryFile("w", suffix=".conf") as resolver,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server,
    ):
        resolver.write("nameserver 127.0.0.1\n")
        resolver.flush()
        place = os.path.realpath("/etc/resolv.conf")
        subprocess.run(["mount", "--bind", resolver.name, place], check=True)
        server.bind(("127.0.0.1", 53))
        threading.Thread(target=serve, args=(server,), daemon=True).start()
        return subprocess.run(argv, check=False).returncode


def serve(server: socket.socket) -> None:
    """Answer questions until the program ends."""
    while True:
        question, client = server.recvfrom(512)
        server.sendto(reply_to(question), client)


def reply_to(question: bytes) -> bytes:
    """The answer to a DNS query: the address of a bucket's host; no such name for all others."""
    labels, end = [], _HEADER_BYTES
    while length := question[end]:
        labels.append(question[end + 1 : end + 1 + length].decode("ascii", "replace"))
        end += 1 + length
    asked = question[_HEADER_BYTES : end + 5]
    kind = int.from_bytes(question[end + 1 : end + 3])
    known = ".".join(labels).lower().endswith(SUFFIX)
    answer = b""
    if known and kind == _A:
        answer = (
            b"\xc0\x0c\x00\x01\x00\x01"
            + _TTL_S.to_bytes(4)
            + b"\x00\x04"
            + socket.inet_aton(ADDRESS)
        )
    counts = b"\x00\x01" + (b"\x00\x01" if answer else b"\x00\x00") + b"\x00\x00\x00\x00"
    code = (_ANSWER if known else _NO_SUCH_NAME).to_bytes(2)
    return question[:2] + code + counts + asked + answer


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
