"""Changes of contexts that are kept in the configuration: new values, another name."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from tpuctl import config
from tpuctl.config import DEFAULT_CONTEXT, Config, Context
from tpuctl.errors import ConflictError, NotFoundError, PreconditionError, UsageError
from tpuctl.jobs.local import supervisor_lock
from tpuctl.jobs.spec import file_notify
from tpuctl.operations.local import local_cloud

MAY_BE_ABSENT = ("network", "subnetwork", "service_account", "price_factors")


def configured(home: Path, known: Config, name: str) -> Context:
    """The context of that name in the configuration. Raises NotFoundError, UsageError."""
    if name in known.contexts:
        return known.contexts[name]
    if name == DEFAULT_CONTEXT or local_cloud.exists(home, name):
        raise UsageError(
            f"context {name!r} is a local cloud, which decides its own settings",
            hint="run: tpuctl local up --help",
        )
    raise NotFoundError(f"there is no context {name!r}", hint="run: tpuctl context list")


def checked_changes(given: Mapping[str, Any]) -> dict[str, Any]:
    """The settings that were given, where an empty text removes one. Raises UsageError."""
    changes = {key: value for key, value in given.items() if value is not None}
    if not changes:
        raise UsageError("no setting is given", hint="run: tpuctl context edit --help")
    for key, value in changes.items():
        if value == "" and key not in MAY_BE_ABSENT:
            option = f"--{key.replace('_', '-')}"
            raise UsageError(f"{option} must not be empty", hint="give a value")
    return {key: None if value == "" else value for key, value in changes.items()}


def checked_targets(given: Sequence[str]) -> tuple[str, ...]:
    """The targets of `--notify`, none where the only one is empty. Raises UsageError."""
    if list(given) == [""]:
        return ()
    file_notify.read_targets(given)
    return tuple(given)


def with_changes(known: Config, name: str, changes: Mapping[str, Any]) -> Config:
    """The configuration with other settings of a context, which may be gone meanwhile."""
    if name not in known.contexts:
        raise NotFoundError(f"there is no context {name!r}", hint="run: tpuctl context list")
    changed = replace(known.contexts[name], **changes)
    return replace(known, contexts={**known.contexts, name: changed})


def rename_context(home: Path, known: Config, old: str, new: str) -> None:
    """Give a context another name, with what this machine knows of its jobs.

    Raises NotFoundError, UsageError, ConflictError, and PreconditionError while a supervisor runs.
    """
    configured(home, known, old)
    if new == DEFAULT_CONTEXT or local_cloud.exists(home, new):
        raise ConflictError(f"{new!r} is a local cloud", hint="choose another name")
    if supervisor_lock.is_locked(home, old):
        raise PreconditionError(
            f"a supervisor of context {old!r} runs on this machine",
            hint=f"run: tpuctl supervisor stop --context {old}",
        )
    config.change(home, lambda found: _renamed(found, old, new))
    supervisor_lock.rename_files(home, old, new)


def _renamed(known: Config, old: str, new: str) -> Config:
    if new in known.contexts:
        raise ConflictError(f"context {new!r} exists", hint="choose another name")
    if old not in known.contexts:
        raise NotFoundError(f"there is no context {old!r}", hint="run: tpuctl context list")
    contexts = {
        new if name == old else name: replace(context, name=new) if name == old else context
        for name, context in known.contexts.items()
    }
    current = new if known.current == old else known.current
    return replace(known, current=current, contexts=contexts)
