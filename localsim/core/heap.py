"""Memory that numpy frees stays with the process, for the arrays of the next operation.

Else the C library gives it back to the system after every step of a program, and each page of it
costs a fault in the next: nearly half of the time of a step. TPU VMs preload tcmalloc, which keeps
it, too.
"""

import ctypes

_TRIM_THRESHOLD = -1
_MMAP_THRESHOLD = -3
"""Of malloc.h, glibc's."""
_KEPT_BYTES = 256 << 20
_LARGEST_BYTES = 32 << 20
"""Greater arrays go back at once: glibc takes no higher threshold."""


def keep_freed_memory() -> None:
    """Set it for this process; without effect where the C library has no mallopt(3)."""
    tune = getattr(ctypes.CDLL(None), "mallopt", None)
    if tune is not None:
        tune(_MMAP_THRESHOLD, _LARGEST_BYTES)
        tune(_TRIM_THRESHOLD, _KEPT_BYTES)
