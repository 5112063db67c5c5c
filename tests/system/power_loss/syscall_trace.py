"""What a command did to the files below a directory: its system calls, as strace reports them."""

import os
import re
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

CALLS = (
    "open openat creat write pwrite64 writev pwritev pwritev2 fsync fdatasync rename renameat "
    "renameat2 link linkat unlink unlinkat mkdir mkdirat rmdir truncate ftruncate fallocate lseek "
    "utimensat recvfrom recvmsg sendfile copy_file_range"
)
_LINE = re.compile(r"(\d+) +(?:(\w+)\((.*)\)|<\.\.\. (\w+) resumed>(.*)\)) += (-?\d+)(.*)")
_BEGUN = re.compile(r"(\d+) +(\w+)\((.*) <unfinished \.\.\.>")
_TEXT = re.compile(r'"((?:\\x[0-9a-f]{2})*)"')
_DESCRIPTOR = re.compile(r"(?:AT_FDCWD|\d+)<((?:\\x[0-9a-f]{2})*)>((?:\(deleted\))?)")
DELETED = "(deleted)"
"""What follows the path of a descriptor whose file has no name any more."""
_MARK = re.compile(rb"power-loss-mark-([\w.-]+);")


@dataclass(frozen=True)
class Call:
    """A system call that succeeded; `begun` and `ended` count the lines of the whole trace.

    `descriptors` are the paths behind its descriptors, `texts` its strings in their order.
    """

    name: str
    begun: int
    ended: int
    arguments: str
    result: int
    result_path: str
    descriptors: tuple[str, ...]
    texts: tuple[bytes, ...]

    @property
    def mark(self) -> str | None:
        """The label in `power-loss-mark-LABEL;`, where the call wrote or received that."""
        found = _MARK.search(b"".join(self.texts))
        return found[1].decode() if found else None


def strace(output: Path, argv: Sequence[str], environ: Mapping[str, str]) -> subprocess.Popen[str]:
    """Start a command whose system calls go to a file."""
    command = ["strace", "-f", "-y", "-xx", "-s", "100000000", "--seccomp-bpf"]
    command += ["-e", f"trace={','.join(CALLS.split())}", "-o", str(output), "--", *argv]
    return subprocess.Popen(
        command, env={**os.environ, **environ}, stdout=subprocess.PIPE, text=True
    )


def calls(output: Path) -> Iterator[Call]:
    """The calls of a trace that succeeded, in the order in which they ended."""
    begun: dict[str, tuple[int, str]] = {}
    with output.open("r", encoding="ascii") as lines:
        for number, line in enumerate(lines):
            if unfinished := _BEGUN.match(line):
                begun[unfinished[1]] = (number, unfinished[3])
                continue
            if not (ended := _LINE.match(line)):
                continue
            thread, name, arguments, resumed, rest, result, tail = ended.groups()
            start = number
            if resumed:
                start, first = begun.pop(thread, (number, ""))
                name, arguments = resumed, first + rest
            if int(result) >= 0:
                yield _call(name, start, number, arguments, int(result), tail)


def _call(name: str, begun: int, ended: int, arguments: str, result: int, tail: str) -> Call:
    result_path = re.match(r"<((?:\\x[0-9a-f]{2})*)>", tail)
    return Call(
        name,
        begun,
        ended,
        arguments,
        result,
        os.fsdecode(_bytes(result_path[1])) if result_path else "",
        tuple(
            os.fsdecode(_bytes(text)) + deleted for text, deleted in _DESCRIPTOR.findall(arguments)
        ),
        tuple(_bytes(text) for text in _TEXT.findall(arguments)),
    )


def _bytes(text: str) -> bytes:
    return bytes.fromhex(text.replace("\\x", ""))
