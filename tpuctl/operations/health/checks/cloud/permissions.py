"""Checks of what the caller may do, by the permissions that each command needs."""

from collections.abc import Iterable, Iterator, Sequence

from tpuctl.api.project.bucket_access import granted_on_bucket
from tpuctl.api.project.resource_manager import granted_permissions
from tpuctl.models.health import HealthCheck, HealthState
from tpuctl.operations.health.checks.cloud.caller import (
    ask_endpoint,
    bucket_grant_command,
    grant_command,
    member_of,
    of_bucket,
    of_one_cloud,
)
from tpuctl.operations.health.needed_permissions import (
    IAP_NEEDS,
    IN_PROJECT,
    ON_BUCKET,
    CommandNeeds,
)
from tpuctl.operations.health.scope import DoctorScope

IN_PROJECT_NAME, ON_BUCKET_NAME = "permissions in the project", "permissions on the bucket"
IAP = "iap"


def ask_project_permissions(scope: DoctorScope) -> Iterator[HealthCheck]:
    """Whether every command may do in the project what it does there."""
    context = scope.context
    needs = (*IN_PROJECT, *((IAP_NEEDS,) if context.dialer == IAP else ()))
    wanted = _permissions(needs)
    granted = ask_endpoint(
        scope,
        context.resourcemanager_endpoint,
        lambda rest: granted_permissions(rest, context.project, wanted),
    )
    lacking = [each for each in needs if each.missing(granted)]
    for each in lacking:
        yield _line_of(IN_PROJECT_NAME, each, granted, grant_command(scope, each.role))
    if not lacking:
        yield HealthCheck(IN_PROJECT_NAME, HealthState.PASS, f"all {len(wanted)} are granted")


def ask_bucket_permissions(scope: DoctorScope) -> Iterator[HealthCheck]:
    """Whether every command may do with the objects of the bucket what it does."""
    context = scope.context
    wanted = _permissions(ON_BUCKET)
    granted = ask_endpoint(
        scope,
        context.storage_endpoint,
        lambda rest: granted_on_bucket(rest, context.bucket, wanted),
    )
    lacking = [each for each in ON_BUCKET if each.missing(granted)]
    for each in lacking:
        # Who lacks both needs the larger role alone.
        fix = bucket_grant_command(context.bucket, member_of(scope), lacking[-1].role)
        yield _line_of(ON_BUCKET_NAME, each, granted, fix)
    if not lacking:
        yield HealthCheck(ON_BUCKET_NAME, HealthState.PASS, f"all {len(wanted)} are granted")


def _permissions(needs: Iterable[CommandNeeds]) -> Sequence[str]:
    return sorted({each for need in needs for each in need.permissions})


def _line_of(name: str, need: CommandNeeds, granted: Iterable[str], fix: str) -> HealthCheck:
    missing = ", ".join(need.missing(granted))
    effect = "cannot work" if need.is_vital else "tell less"
    state = HealthState.FAIL if need.is_vital else HealthState.WARN
    evidence = f"you may not {need.what}: {', '.join(need.commands)} {effect} without {missing}"
    return HealthCheck(name, state, evidence, fix)


CHECKS = (
    of_one_cloud(IN_PROJECT_NAME, ask_project_permissions, "resourcemanager_endpoint"),
    of_bucket(ON_BUCKET_NAME, ask_bucket_permissions),
)
