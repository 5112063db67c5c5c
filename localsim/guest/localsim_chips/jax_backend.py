"""JAX opens the chips when it makes its backends: there this program begins to hold them."""

from __future__ import annotations

import functools
import os
import sys
import time

from . import holding
from .hooks import note
from .lock import NotLoadedError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType
    from typing import Any


def install(xla_bridge: ModuleType) -> None:
    """Hold the chips before JAX makes its first backend."""
    original = getattr(xla_bridge, "backends", None)
    if not callable(original) or not isinstance(getattr(xla_bridge, "_backends", None), dict):
        note("this version of JAX makes its backends in another way: it does not hold the chips")
        return

    @functools.wraps(original)
    def backends() -> Any:
        if not xla_bridge._backends:  # noqa: SLF001
            _hold()
        return original()

    xla_bridge.backends = backends  # type: ignore[attr-defined]


def _hold() -> None:
    """Raises RuntimeError, in JAX's words, when another process has the chips."""
    try:
        holding.hold(_Look())
    except NotLoadedError as error:
        raise RuntimeError(
            f"Unable to initialize backend 'tpu': {error}"
            " (set JAX_PLATFORMS='' to automatically choose an available backend)"
        ) from None


class _Look:
    """Bytes of the live arrays on each local device; processor time stands for the chip's."""

    def __init__(self) -> None:
        self._seen_s = time.monotonic()
        self._used_s = _processor_s()

    def __call__(self) -> holding.Usage:
        now_s, used_s = time.monotonic(), _processor_s()
        passed_s = max(now_s - self._seen_s, 1e-3)
        busy = min(1.0, (used_s - self._used_s) / passed_s)
        self._seen_s, self._used_s = now_s, used_s
        return holding.Usage(_live_bytes(), busy)


def _processor_s() -> float:
    times = os.times()
    return times.user + times.system


def _live_bytes() -> list[int]:
    jax: Any = sys.modules["jax"]
    if not jax._src.xla_bridge.backends_are_initialized():  # noqa: SLF001
        return []
    used = {device: 0 for device in jax.local_devices()}
    for array in jax.live_arrays():
        if array.is_deleted():
            continue
        shard = 1
        for size in array.sharding.shard_shape(array.shape):
            shard *= size
        for device in array.sharding.addressable_devices:
            used[device] = used.get(device, 0) + shard * array.dtype.itemsize
    return list(used.values())
