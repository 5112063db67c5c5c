"""Runs at the start of every Python on a worker: watches for JAX, then gives way to the next one.

It must cost next to nothing, since most programs open no chips: only what the interpreter has
loaded by itself is imported here. Python 3.8 suffices.
"""

from __future__ import annotations

import os
import sys
from _frozen_importlib import module_from_spec
from _frozen_importlib_external import PathFinder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType
    from typing import Any

_HOOKS = {
    "jax._src.xla_bridge": "jax_backend",
    "jax._src.lax.lax": "jax_numerics",
}
"""A module of JAX -> what of `localsim_chips` is told when it has been imported."""


class _Watch:
    """Finds nothing itself: tells the hooks of the modules that they wait for."""

    def __init__(self) -> None:
        self._waiting = dict(_HOOKS)

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The spec that the other finders have, with the hook behind its loader."""
        hook = self._waiting.pop(name, None)
        if hook is None:
            return None
        if not self._waiting:
            sys.meta_path.remove(self)
        others = (finder for finder in tuple(sys.meta_path) if finder is not self)
        found = (finder.find_spec(name, path, target) for finder in others)
        spec = next((each for each in found if each is not None), None)
        if spec is not None and spec.loader is not None:
            _then(spec.loader, hook)
        return spec


def _then(loader: Any, hook: str) -> None:
    """Let a loader run a hook when it has executed its module."""
    execute = loader.exec_module

    def exec_module(module: ModuleType) -> None:
        del loader.exec_module
        execute(module)
        from localsim_chips import hooks  # type: ignore[import-not-found]

        hooks.run(hook, module)

    try:
        loader.exec_module = exec_module
    except AttributeError:
        return  # a loader of another kind: JAX goes on without us


def _give_way() -> None:
    """Run the sitecustomize that programs would have had without this one."""
    here = os.path.dirname(os.path.abspath(__file__))
    elsewhere = [path for path in sys.path if os.path.abspath(path) != here]
    spec = PathFinder.find_spec("sitecustomize", elsewhere)
    if spec is None or spec.loader is None:
        return
    module = module_from_spec(spec)
    sys.modules["sitecustomize"] = module
    spec.loader.exec_module(module)


sys.meta_path.insert(0, _Watch())
_give_way()
