"""localsim: Cloud TPU and Cloud Storage in a box, at the wire, offline."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from localsim.testing import cloud

__all__ = ["cloud"]


def __getattr__(name: str) -> Any:
    """`localsim.cloud` is `localsim.testing.cloud`, imported when it is used."""
    if name != "cloud":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from localsim.testing import cloud

    return cloud
