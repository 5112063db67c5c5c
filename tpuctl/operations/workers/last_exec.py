"""Which workers failed in the last `node exec` on a node, for `--only-failed`."""

import json
from collections.abc import Sequence
from pathlib import Path

from tpuctl.config import write_private
from tpuctl.errors import DamagedStateError, PreconditionError
from tpuctl.models.node import Node
from tpuctl.models.operation import CommandResult

SCHEMA = 1


def save_failed(home: Path, context: str, node: Node, done: Sequence[CommandResult]) -> None:
    """Remember who failed; nothing is kept when nobody did. Raises LocalIOError."""
    path = _path(home, context, node)
    failed = [each.worker_id for each in done if each.exit_status]
    if not failed:
        path.unlink(missing_ok=True)
        return
    document = {"schema": SCHEMA, "node": _identity(node), "failed": failed}
    write_private(path, json.dumps(document).encode())


def load_failed(home: Path, context: str, node: Node) -> list[int]:
    """The workers that failed; raises PreconditionError when none did, DamagedStateError."""
    path = _path(home, context, node)
    found: list[int] = []
    if path.is_file():
        try:
            document = json.loads(path.read_text("utf-8"))
            if document["node"] == _identity(node):  # else of a node that had its name before
                found = [int(each) for each in document["failed"]]
        except (ValueError, KeyError, TypeError) as error:
            raise DamagedStateError(f"cannot read {path}", hint=f"run: rm {path}") from error
    if not found:
        raise PreconditionError(
            f"no worker of node {node.name!r} failed in its last exec from here",
            hint="leave out --only-failed",
        )
    return found


def _identity(node: Node) -> list[str | float]:
    return [str(node.node_id), node.created_s]


def _path(home: Path, context: str, node: Node) -> Path:
    return home / "exec" / context / node.zone / f"{node.name}.json"
