"""Checks of the service account that workers act as."""

from collections.abc import Iterator, Mapping

from tpuctl.api.project.bucket_access import bucket_roles_by_member
from tpuctl.api.project.resource_manager import read_project, roles_by_member
from tpuctl.api.project.service_accounts import is_account_enabled, may_act_as
from tpuctl.errors import NotFoundError
from tpuctl.models.health import HealthCheck, HealthState
from tpuctl.operations.health.checks.cloud.caller import (
    ask_endpoint,
    bucket_grant_command,
    edit_command,
    member_of,
    of_one_cloud,
)
from tpuctl.operations.health.needed_permissions import (
    CONVENIENCE_MEMBERS,
    LEGACY_WRITERS,
    ROLES_THAT_WRITE_OBJECTS,
)
from tpuctl.operations.health.scope import DoctorScope

ACCOUNT, ACT_AS, RIGHTS = (
    "service account of workers",
    "permission to act as the service account",
    "rights of workers on the bucket",
)
_NEW_ACCOUNT = "tpuctl-workers"


def ask_account(scope: DoctorScope) -> Iterator[HealthCheck]:
    """Whether the account is there and enabled, and the caller may give it to slices."""
    context, email = scope.context, _email(scope)
    try:
        is_enabled = ask_endpoint(
            scope, context.iam_endpoint, lambda rest: is_account_enabled(rest, email)
        )
    except NotFoundError:
        evidence = f"there is no service account {email}"
        fix = _creation_command(scope, email)
        yield HealthCheck(ACCOUNT, HealthState.FAIL, evidence, fix)
        return
    if not is_enabled:
        fix = f"gcloud iam service-accounts enable {email} --project={context.project}"
        yield HealthCheck(ACCOUNT, HealthState.FAIL, f"{email} is disabled", fix)
    else:
        yield HealthCheck(ACCOUNT, HealthState.PASS, email)
    if ask_endpoint(scope, context.iam_endpoint, lambda rest: may_act_as(rest, email)):
        yield HealthCheck(ACT_AS, HealthState.PASS, f"you may give {email} to slices")
        return
    evidence = f"node create, qr create and job submit cannot work without actAs on {email}"
    fix = (
        f"gcloud iam service-accounts add-iam-policy-binding {email} "
        f"--project={context.project} --member={member_of(scope)} "
        "--role=roles/iam.serviceAccountUser"
    )
    yield HealthCheck(ACT_AS, HealthState.FAIL, evidence, fix)


def ask_bucket_rights(scope: DoctorScope) -> Iterator[HealthCheck]:
    """Whether workers may keep logs and checkpoints in the bucket, by the policies that say so."""
    context, email = scope.context, _email(scope)
    member = f"serviceAccount:{email}"
    try:
        on_bucket = ask_endpoint(
            scope,
            context.storage_endpoint,
            lambda rest: bucket_roles_by_member(rest, context.bucket),
        )
    except NotFoundError:
        return  # the line of the bucket says so
    in_project = ask_endpoint(
        scope,
        context.resourcemanager_endpoint,
        lambda rest: roles_by_member(rest, context.project),
    )
    role = _writing_role(member, context.project, on_bucket, in_project)
    if role:
        evidence = f"{email} writes gs://{context.bucket} by {role}"
        yield HealthCheck(RIGHTS, HealthState.PASS, evidence)
        return
    evidence = (
        f"no role lets {email} write gs://{context.bucket}: jobs can keep neither logs nor "
        "checkpoints"
    )
    groups = sorted(each for each in {**on_bucket, **in_project} if each.startswith("group:"))
    if groups:
        evidence += f" (unless it is a member of {groups[0]})"
    state = HealthState.UNKNOWN if groups else HealthState.FAIL
    fix = bucket_grant_command(context.bucket, member, "roles/storage.objectUser")
    yield HealthCheck(RIGHTS, state, evidence, fix)


def _writing_role(
    member: str,
    project: str,
    on_bucket: Mapping[str, frozenset[str]],
    in_project: Mapping[str, frozenset[str]],
) -> str:
    """The role by which a member writes objects of the bucket; empty for none that is known."""
    none: frozenset[str] = frozenset()
    of_project = in_project.get(member, none)
    direct = ROLES_THAT_WRITE_OBJECTS & (on_bucket.get(member, none) | of_project)
    if direct:
        return min(direct)
    for role, kind in CONVENIENCE_MEMBERS.items():
        if role in of_project and LEGACY_WRITERS & on_bucket.get(f"{kind}:{project}", none):
            return role
    return ""


def _email(scope: DoctorScope) -> str:
    """The account of the context's slices: its own, or Compute Engine's default one."""
    context = scope.context
    if context.service_account:
        return context.service_account
    found = ask_endpoint(
        scope,
        context.resourcemanager_endpoint,
        lambda rest: read_project(rest, context.project),
    )
    return f"{found.number}-compute@developer.gserviceaccount.com"


def _creation_command(scope: DoctorScope, email: str) -> str | None:
    """The commands that make the account, or another one where only Google makes that."""
    context = scope.context
    domain = f"@{context.project}.iam.gserviceaccount.com"
    if email.endswith(domain):
        name = email.removesuffix(domain)
        return f"gcloud iam service-accounts create {name} --project={context.project}"
    edit = edit_command(scope, "--service-account", f"{_NEW_ACCOUNT}{domain}")
    create = f"gcloud iam service-accounts create {_NEW_ACCOUNT} --project={context.project}"
    return edit and f"{create} && {edit}"


CHECKS = (
    of_one_cloud(ACCOUNT, ask_account, "iam_endpoint", "resourcemanager_endpoint"),
    of_one_cloud(RIGHTS, ask_bucket_rights, "resourcemanager_endpoint"),
)
