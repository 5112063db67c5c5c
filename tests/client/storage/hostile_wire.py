"""What hostile requests must leave as it was, and what an answer is."""

import re
from pathlib import Path

STATED = re.compile(rb"HTTP/1\.[01] ([0-9]{3}) ")


def status(reply):
    """The status of a raw reply; there must be one."""
    found = STATED.match(reply)
    assert found, reply[:200]
    return int(found[1])


def spelled(name):
    """A name as a path segment or parameter."""
    return "".join(f"%{byte:02x}" for byte in name.encode("utf-8", "surrogatepass"))


def outside(directory):
    """Everything beside the store's own files, which have the names that it gave them."""
    own = re.compile(
        r"storage(/incoming|/objects(/[0-9a-f]{2})?)?|storage/(objects\.sqlite.*|kms\.key)"
    )
    own_files = re.compile(r"storage/(incoming|objects/[0-9a-f]{2})/[0-9a-f]{32}(\.key)?")
    found = {str(path.relative_to(directory)) for path in Path(directory).rglob("*")}
    return {name for name in found if not own.fullmatch(name) and not own_files.fullmatch(name)}


def healthy(shut, canary=("canary",)):
    """The server lives, and nothing has come to be outside of its store."""
    assert shut.request("GET", "/storage/v1/b/box").status == 200
    assert outside(shut.directory) == set(canary)
    assert (shut.directory / "canary").read_text() == "alive"
