"""Which runtime version a job's slice boots: TensorFlow on TPUs has images of its own."""

import re
from pathlib import Path

from tpuctl import catalog
from tpuctl.errors import LocalIOError

AUTO = "auto"
TENSORFLOW = "tensorflow"
REQUIREMENTS = "requirements.txt"
_PACKAGE = re.compile(r"(?<![\w.-])tensorflow(-tpu)?(?![\w.-])", re.IGNORECASE)
"""The packages that can use TPUs: tensorflow-cpu or tensorflow-datasets feed other frameworks."""
_COMMENT = re.compile(r"#.*")


def choose_runtime(
    kind: catalog.AcceleratorType | None, wanted: str, *, tensorflow: bool
) -> str | None:
    """The version to ask for; None is the one that Google recommends for the type.

    Raises catalog.UnknownError.
    """
    if wanted == TENSORFLOW or (wanted == AUTO and tensorflow):
        return catalog.tensorflow_runtime_version(kind.name) if kind else None
    if wanted == AUTO:
        return None
    known = catalog.runtime_versions(kind.generation if kind else None)
    if wanted not in known and not wanted.startswith(catalog.TENSORFLOW_PREFIX):
        near = catalog.nearest(wanted, (*known, AUTO, TENSORFLOW))
        raise catalog.UnknownError("runtime version", wanted, near)
    return wanted


def uses_tensorflow(setup: str | None, workdir: str | None) -> bool:
    """Whether `setup`, or requirements.txt in the workdir, names TensorFlow's package.

    Raises LocalIOError.
    """
    return any(map(_names_it, (setup or "", _requirements(workdir))))


def _requirements(workdir: str | None) -> str:
    if workdir is None:
        return ""
    path = Path(workdir, REQUIREMENTS)
    try:
        return path.read_text("utf-8", "replace")
    except FileNotFoundError:
        return ""
    except OSError as error:
        raise LocalIOError(f"cannot read {path}: {error.strerror}") from error


def _names_it(text: str) -> bool:
    return _PACKAGE.search(_COMMENT.sub("", text)) is not None
