"""By which names programs mark a save as complete, or point to the newest one."""

import re

MARKER_NAMES: tuple[tuple[str, str], ...] = (
    (r"commit(_success)?(\.(txt|json))?|_commit_success", "Orbax 0.11, tpuctl"),
    (r"_success|_?(done|complete|completed|committed|ready|finished)(\.(txt|json))?", "Hadoop"),
    (r".+\.(done|complete|completed|commit|committed|ready|success)", "a sibling of a file"),
    (r"\.metadata", "PyTorch DCP"),
    (
        r"latest([-_](step|checkpoint|iteration|epoch))?(\.(txt|json))?"
        r"|.*[-_.]latest|last|newest|current",
        "DeepSpeed and Megatron-LM",
    ),
    (r"latest_checkpointed_iteration\.txt", "Megatron-LM"),
    (r"checkpoint", "TensorFlow: the newest checkpoint of a directory"),
    (r"_checkpoint_metadata", "Orbax, in directories"),
    (r"(.*[-_.])?manifest([-_.].*)?|.+\.index\.json|index\.json", "safetensors in several files"),
    (r"marker([-_.].*)?|.+[-_.]marker", "own programs"),
)
"""Regular expression of the last part of an object's name, in lower case -> who writes it.

The first that fits counts, so that a commit stands before a pointer and a pointer before a list.
"""
NO_MARKER = len(MARKER_NAMES)


def marker_rank(name: str) -> int:
    """How surely an object marks a save, 0 the most; NO_MARKER: its name does not say so."""
    last = name.rpartition("/")[2].lower()
    patterns = enumerate(pattern for pattern, _ in MARKER_NAMES)
    return next((rank for rank, pattern in patterns if re.fullmatch(pattern, last)), NO_MARKER)
