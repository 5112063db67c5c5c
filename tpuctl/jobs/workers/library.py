"""What training programs import of tpuctl, as one zip that goes to a worker with its job.

Sources alone: a worker's Python is of another version than this one.
"""

from collections.abc import Iterator
from functools import cache
from importlib import resources

from tpuctl import __version__
from tpuctl.agent import ship

ARCHIVE_NAME = "library.zip"
PACKAGES = ("store", "checkpoint", "serving")
INIT = f'''\
"""tpuctl, as far as training programs import it."""

from pkgutil import extend_path

# An installed tpuctl has other rooms, which programs may need as well.
__path__ = extend_path(__path__, __name__)
__version__ = {__version__!r}
'''


MODULES = (
    "durable_directories.py", "errors.py", "network_policy.py", "page_tokens.py", "retry_after.py",
)  # fmt: skip
"""What is in it beside the rooms."""


@cache
def build_archive() -> bytes:
    """`tpuctl.checkpoint` with the store and the errors that it needs; for a place on sys.path."""
    return ship.zipped({f"tpuctl/{name}": text for name, text in sorted(_sources())})


def _sources() -> Iterator[tuple[str, str]]:
    """Names below the package, and what they hold."""
    package = resources.files("tpuctl")  # of a room, this would import numpy
    yield "__init__.py", INIT
    for name in MODULES:
        yield name, package.joinpath(name).read_text("utf-8")
    for room in PACKAGES:
        yield from ship.python_files(package.joinpath(room), room)
