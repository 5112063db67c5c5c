"""Checks of the project: that it is there, its APIs, its billing."""

from collections.abc import Iterator, Sequence

from tpuctl.api.project.billing import is_billing_enabled, open_accounts
from tpuctl.api.project.enabled_services import enabled_services
from tpuctl.api.project.resource_manager import read_project
from tpuctl.errors import PermissionDeniedError
from tpuctl.models.health import HealthCheck, HealthState
from tpuctl.operations.health.checks.cloud.caller import ask_endpoint, of_one_cloud
from tpuctl.operations.health.scope import DoctorScope

PROJECT, APIS, BILLING = "project", "APIs", "billing"
_NEEDED = ("tpu.googleapis.com", "compute.googleapis.com", "storage.googleapis.com")
_OF_DIALER = {"iap": ("iap.googleapis.com",)}
_HELPFUL = tuple(
    f"{name}.googleapis.com"
    for name in ("cloudbilling", "cloudresourcemanager", "iam", "monitoring")
)
"""Without these tpuctl works, and tells less: the doctor above all."""
_ACTIVE = "ACTIVE"


def ask_project_state(scope: DoctorScope) -> Iterator[HealthCheck]:
    """Whether the project is there and not on its way to its deletion."""
    context = scope.context
    found = ask_endpoint(
        scope,
        context.resourcemanager_endpoint,
        lambda rest: read_project(rest, context.project),
    )
    if found.state == _ACTIVE:
        yield HealthCheck(PROJECT, HealthState.PASS, f"{found.id}, number {found.number}")
        return
    fix = f"gcloud projects undelete {found.id}"
    yield HealthCheck(PROJECT, HealthState.FAIL, f"{found.id} is {found.state}", fix)


def ask_apis(scope: DoctorScope) -> Iterator[HealthCheck]:
    """Whether the APIs are enabled that commands need, and those that tell more."""
    context = scope.context
    enabled = ask_endpoint(
        scope,
        context.serviceusage_endpoint,
        lambda rest: enabled_services(rest, context.project),
    )
    needed = (*_NEEDED, *_OF_DIALER.get(context.dialer, ()))
    missing = [name for name in needed if name not in enabled]
    unheard = [name for name in _HELPFUL if name not in enabled]
    # One command enables all of them.
    fix = f"gcloud services enable {' '.join((*missing, *unheard))} --project={context.project}"
    if missing:
        yield _disabled_line(missing, HealthState.FAIL, "Cloud TPU cannot be used", fix)
    if unheard:
        yield _disabled_line(unheard, HealthState.WARN, "the doctor sees less", fix)
    if not missing and not unheard:
        wanted = len(needed) + len(_HELPFUL)
        yield HealthCheck(APIS, HealthState.PASS, f"all {wanted} that tpuctl asks are enabled")


def _disabled_line(names: Sequence[str], state: HealthState, effect: str, fix: str) -> HealthCheck:
    verb = "is" if len(names) == 1 else "are"
    evidence = f"{', '.join(names)} {verb} not enabled: {effect}"
    return HealthCheck(APIS, state, evidence, fix, is_safe=True)


def ask_billing(scope: DoctorScope) -> Iterator[HealthCheck]:
    """Whether somebody pays for the project: without that Cloud TPU refuses everything."""
    context = scope.context
    if ask_endpoint(
        scope, context.billing_endpoint, lambda rest: is_billing_enabled(rest, context.project)
    ):
        yield HealthCheck(BILLING, HealthState.PASS, "a billing account is linked")
        return
    try:
        accounts = ask_endpoint(scope, context.billing_endpoint, open_accounts)
    except PermissionDeniedError:
        accounts = []
    evidence = f"project {context.project} has no open billing account"
    if not accounts:
        more = "; nor do you see one that it could have (console: Billing)"
        yield HealthCheck(BILLING, HealthState.FAIL, evidence + more)
        return
    if len(accounts) > 1:
        evidence += f"; you see {', '.join(accounts)}"
    link = f"gcloud billing projects link {context.project} --billing-account={accounts[0]}"
    yield HealthCheck(BILLING, HealthState.FAIL, evidence, link)


CHECKS = (
    of_one_cloud(PROJECT, ask_project_state, "resourcemanager_endpoint"),
    of_one_cloud(APIS, ask_apis, "serviceusage_endpoint"),
    of_one_cloud(BILLING, ask_billing, "billing_endpoint"),
)
