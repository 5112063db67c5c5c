"""What the doctor examines: the context in use, found without starting anything, and its checks."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from tpuctl.api.ssh.keys import key_paths
from tpuctl.config import Context
from tpuctl.errors import DamagedStateError, PreconditionError, UsageError
from tpuctl.models.health import HealthCheck
from tpuctl.models.job import JobRecord
from tpuctl.operations.health import registry
from tpuctl.operations.health.checks.target.job_checks import JobTarget, checks_of_job
from tpuctl.operations.health.checks.target.node_checks import NodeTarget, checks_of_node
from tpuctl.operations.health.scope import DoctorCheck, DoctorScope, open_clients
from tpuctl.operations.jobs.events import JobRuntime
from tpuctl.operations.local import local_cloud, local_health
from tpuctl.operations.local.local_health import LocalCheck
from tpuctl.operations.metrics.explain import find_subject

if TYPE_CHECKING:
    from tpuctl.api.ssh.keys import Access


class DoctorRuntime(JobRuntime, Protocol):
    """What the doctor needs of a command."""

    @property
    def access(self) -> "Access":
        """This user's SSH key, made when it is not there, and the dialer to the workers."""

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


def examination_of_target(
    runtime: DoctorRuntime,
    name: str,
    *,
    began_s: float,
    zone: str | None,
    is_job: bool,
    is_node: bool,
) -> Examination:
    """The checks of the job or the node of that name; the context's cloud is asked for it.

    Their deadline counts from `began_s` on, by the monotonic clock.
    Raises NotFoundError, and UsageError where a job and a node have the name.
    """
    found = find_subject(runtime, name, command="doctor", zone=zone, is_job=is_job, is_node=is_node)
    scope = DoctorScope(
        runtime.home, runtime.environ, runtime.now, runtime.context, began_s=began_s
    )
    if isinstance(found, JobRecord):
        job = JobTarget(runtime, runtime.access, found)
        return Examination(checks_of_job(job), scope)
    has_key = all(path.is_file() for path in key_paths(runtime.home))
    node = NodeTarget(runtime, runtime.access if has_key else None, found)
    return Examination(checks_of_node(node), scope)


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
