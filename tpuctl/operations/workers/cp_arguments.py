"""What the arguments of `node cp` name: NODE:PATH, or a path of this machine."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from tpuctl.errors import UsageError

GRAMMAR = "write NODE:PATH on one side, and paths of this machine on the other"
_REMOTE = re.compile(r"(?P<user>[^/:@]+@)?(?P<node>[a-z][-a-z0-9]*):(?P<path>.*)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class CopyPath:
    """A path on the workers of a node, or of this machine (`node` is None)."""

    node: str | None
    path: str


@dataclass(frozen=True, slots=True)
class CopyArguments:
    """Sources and target of a copy; one side is on the workers of `node`."""

    node: str
    sources: tuple[str, ...]
    target: str
    is_upload: bool


def parse_path(text: str) -> CopyPath:
    """`NODE:PATH`, as scp has it; anything with a slash before the colon is a path. UsageError."""
    if text.startswith("gs://"):
        raise UsageError(f"{text!r} is in a bucket", hint="run: tpuctl data push, or data pull")
    if not text:
        raise UsageError("an empty argument does not name a place", hint=GRAMMAR)
    match = _REMOTE.fullmatch(text)
    if match is None:
        return CopyPath(None, text)
    if match["user"]:
        raise UsageError(
            f"{text!r} names a user, and tpuctl logs in as its own",
            hint=f"write {match['node']}:{match['path']}",
        )
    return CopyPath(match["node"], match["path"])


def parse_arguments(arguments: Sequence[str]) -> CopyArguments:
    """Parse SRC... DST. Raises UsageError."""
    if len(arguments) < 2:
        raise UsageError("a copy needs a source and a target", hint=GRAMMAR)
    *sources, target = map(parse_path, arguments)
    nodes = {place.node for place in sources}
    if len(nodes) != 1:
        raise UsageError("the sources are in different places", hint="copy them one by one")
    (node,) = nodes
    if (node is None) == (target.node is None):
        where = "this machine" if node is None else "workers"
        raise UsageError(f"both sides are on {where}", hint=GRAMMAR)
    paths = tuple(place.path for place in sources)
    return CopyArguments(str(node or target.node), paths, target.path, is_upload=node is None)
