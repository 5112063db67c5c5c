"""What the doctor examines: the context in use, found without starting anything, and its checks."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from tpuctl.config import Config, Context
from tpuctl.errors import DamagedStateError, PreconditionError, UsageError
from tpuctl.models.health import HealthCheck
from tpuctl.operations.health import registry
from tpuctl.operations.health.scope import DoctorCheck, DoctorScope, open_clients
from tpuctl.operations.local import local_cloud, local_health
from tpuctl.operations.local.local_health import LocalCheck


class DoctorRuntime(Protocol):
    """What the doctor of machine and context needs of a command."""

    @property
    def home(self) -> Path:
        """The directory of this user's own tpuctl files."""

    @property
    def environ(self) -> Mapping[str, str]:
        """The environment of the person who runs the command."""

    @property
    def now(self) -> Callable[[], float]:
        """The wall clock, in seconds since 1970."""

    @property
    def config(self) -> Config:
        """The configuration file; raises DamagedStateError, UsageError."""

    @property
    def known_context_name(self) -> str:
        """The name of the context in use, which is looked up and not started."""

    @property
    def overrides(self) -> Mapping[str, Any]:
        """The project and the zone that the command is given in place of the context's."""


@dataclass(frozen=True, slots=True)
class Examination:
    """Checks, in the order of their lines, and what they may look at."""

    checks: Sequence[DoctorCheck]
    scope: DoctorScope


@contextmanager
def examination_of(runtime: DoctorRuntime, began_s: float) -> Iterator[Examination]:
    """The checks of this machine, and those of the context's cloud where there is one to ask.

    Their deadline counts from `began_s` on, by the monotonic clock.
    Raises NotFoundError for a context that does not exist.
    """
    scope = DoctorScope(runtime.home, runtime.environ, runtime.now, began_s=began_s)
    context, own = _context_and_own_checks(runtime)
    if context is None:
        yield Examination((*registry.MACHINE_CHECKS, *own), scope)
        return
    context = replace(context, **runtime.overrides)
    with open_clients(context) as clients:
        checks = (*registry.MACHINE_CHECKS, *own, *registry.CONTEXT_CHECKS)
        yield Examination(checks, replace(scope, known_context=context, known_clients=clients))


def _context_and_own_checks(
    runtime: DoctorRuntime,
) -> tuple[Context | None, Sequence[DoctorCheck]]:
    """The context in use, where there is one to ask, and the checks that come with it.

    A local cloud brings checks of its own. A configuration that cannot be read has neither: the
    check of its file says so.
    """
    try:
        known = runtime.config.contexts
    except (DamagedStateError, UsageError):
        return None, ()
    name = runtime.known_context_name
    if name in known:
        return known[name], ()
    line = local_cloud.endpoint_line(runtime.home, name)
    own = [DoctorCheck(row.name, partial(_ask_local, row, name)) for row in local_health.CHECKS]
    try:
        return (local_cloud.context_of(line) if line else None), own
    except PreconditionError:  # of an older version: a check of its own says so
        return None, own


def _ask_local(row: LocalCheck, name: str, scope: DoctorScope) -> Iterator[HealthCheck]:
    return row.ask(scope.home, name)
