"""What the doctor examines of one node or one job: with what explain knows, which takes longer."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Protocol

from tpuctl.api.ssh.keys import key_paths
from tpuctl.models.job import JobRecord
from tpuctl.operations.health import doctor
from tpuctl.operations.health.checks.target.job_checks import JobTarget, checks_of_job
from tpuctl.operations.health.checks.target.node_checks import NodeTarget, checks_of_node
from tpuctl.operations.health.examination import Examination
from tpuctl.operations.health.scope import DoctorScope
from tpuctl.operations.jobs.events import JobRuntime
from tpuctl.operations.metrics.explain import find_subject

if TYPE_CHECKING:
    from tpuctl.api.ssh.keys import Access


class TargetRuntime(JobRuntime, Protocol):
    """What the doctor of a node or a job needs of a command."""

    @property
    def access(self) -> Access:
        """This user's SSH key, made when it is not there, and the dialer to the workers."""


def examination_of_target(
    runtime: TargetRuntime,
    name: str,
    *,
    began_s: float,
    zone: str | None,
    is_job: bool,
    is_node: bool,
) -> Examination:
    """The checks of the job or the node of that name; the context's cloud is asked for it.

    Their deadline counts from `began_s` on, by the monotonic clock.
    Raises TransientError when nobody answers in time, NotFoundError, and UsageError where a job
    and a node have the name.
    """
    scope = DoctorScope(runtime.home, runtime.environ, runtime.now, began_s=began_s)
    find = partial(
        find_subject, runtime, name, command="doctor", zone=zone, is_job=is_job, is_node=is_node
    )
    found = doctor.wait_for_answer(find, began_s + scope.deadline_s, scope)
    scope = replace(scope, known_context=runtime.context)
    if isinstance(found, JobRecord):
        job = JobTarget(runtime, runtime.access, found)
        return Examination(checks_of_job(job), scope)
    has_key = all(path.is_file() for path in key_paths(runtime.home))
    node = NodeTarget(runtime, runtime.access if has_key else None, found)
    return Examination(checks_of_node(node), scope)
