"""What training programs import of tpuctl, as one zip that goes to a worker with its job.

Sources alone: a worker's Python is of another version than this one.
"""

import zipfile
from collections.abc import Iterator
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable
from io import BytesIO

from tpuctl import __version__

ARCHIVE_NAME = "library.zip"
PACKAGES = ("store", "checkpoint")
EARLIEST = (1980, 1, 1, 0, 0, 0)
"""The same sources are the same bytes, whenever they were written."""
READABLE = 0o644 << 16
INIT = f'''\
"""tpuctl, as far as training programs import it."""

from pkgutil import extend_path

# An installed tpuctl has other rooms, which programs may need as well.
__path__ = extend_path(__path__, __name__)
__version__ = {__version__!r}
'''


@cache
def build_archive() -> bytes:
    """`tpuctl.checkpoint` with the store and the errors that it needs; for a place on sys.path."""
    found = BytesIO()
    with zipfile.ZipFile(found, "w") as zipped:
        for name, text in sorted(_sources()):
            entry = zipfile.ZipInfo(f"tpuctl/{name}", EARLIEST)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = READABLE
            zipped.writestr(entry, text)
    return found.getvalue()


def python_files(folder: Traversable, name: str) -> Iterator[tuple[str, str]]:
    """Path and text of every Python file in a folder and the folders below it."""
    for each in folder.iterdir():
        if each.name.endswith(".py"):
            yield f"{name}/{each.name}", each.read_text("utf-8")
        elif each.is_dir() and each.name != "__pycache__":
            yield from python_files(each, f"{name}/{each.name}")


def _sources() -> Iterator[tuple[str, str]]:
    """Names below the package, and what they hold."""
    package = resources.files("tpuctl")  # of a room, this would import numpy
    yield "__init__.py", INIT
    for name in ("errors.py", "network_policy.py"):
        yield name, package.joinpath(name).read_text("utf-8")
    for room in PACKAGES:
        yield from python_files(package.joinpath(room), room)
