"""Checks of the way to the workers and of their way out: network, firewall, NAT, OS Login."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from ipaddress import ip_network
from typing import TYPE_CHECKING

from tpuctl.api.project import networks
from tpuctl.api.ssh.os_login import ENABLE, is_on
from tpuctl.errors import NotFoundError
from tpuctl.models.health import HealthCheck, HealthState
from tpuctl.models.quota_holders import region_of
from tpuctl.operations.health.checks.cloud.caller import ask_endpoint, of_one_cloud
from tpuctl.operations.health.scope import DoctorScope

if TYPE_CHECKING:
    from tpuctl.api.project.networks import IngressRule
    from tpuctl.config import Context

NETWORK, FIREWALL, WAY_OUT, OS_LOGIN = (
    "network",
    "firewall for SSH",
    "way out without external addresses",
    "OS Login",
)
DEFAULT_NETWORK = "default"
_SSH_PORT = 22
_EVERYWHERE = "0.0.0.0/0"
_SOURCES: Mapping[str, str] = {"direct": _EVERYWHERE, "iap": "35.235.240.0/20"}
"""Dialer -> where connections to workers come from; others come from within the network."""
_WITHIN = "10.0.0.0/8"
_LONGEST_NAME = 63


def ask_network(scope: DoctorScope) -> Iterator[HealthCheck]:
    """Whether the network of the context's slices is there, and lets SSH in."""
    context, name = scope.context, _network(scope.context)
    try:
        ask_endpoint(
            scope,
            context.compute_endpoint,
            lambda rest: networks.has_network(rest, context.project, name),
        )
    except NotFoundError:
        fix = f"gcloud compute networks create {name} --project={context.project}"
        evidence = f"project {context.project} has no network {name!r}"
        yield HealthCheck(NETWORK, HealthState.FAIL, evidence, fix)
        return
    yield HealthCheck(NETWORK, HealthState.PASS, name)
    rules = ask_endpoint(
        scope, context.compute_endpoint, lambda rest: networks.ingress_rules(rest, context.project)
    )
    yield _line_of_firewall(context, [each for each in rules if each.network == name])


def _line_of_firewall(context: Context, rules: Sequence[IngressRule]) -> HealthCheck:
    wanted = _SOURCES.get(context.dialer, _WITHIN)
    admitting = [rule for rule in rules if rule.admits("tcp", _SSH_PORT) and rule.sources]
    name = _network(context)
    if not admitting:
        evidence = f"no rule of network {name!r} lets tcp:{_SSH_PORT} in: no worker is reached"
        return HealthCheck(FIREWALL, HealthState.FAIL, evidence, _opening(context, wanted))
    enough = [rule for rule in admitting if any(_overlap(each, wanted) for each in rule.sources)]
    if not enough:
        there = ", ".join(source for rule in admitting for source in rule.sources)
        evidence = f"tcp:{_SSH_PORT} is let in from {there} alone, and you come from {wanted}"
        return HealthCheck(FIREWALL, HealthState.FAIL, evidence, _opening(context, wanted))
    return HealthCheck(FIREWALL, HealthState.PASS, f"rule {enough[0].name} lets tcp:22 in")


def _opening(context: Context, sources: str) -> str:
    name = _network(context)
    rule = f"tpuctl-ssh-{name}"[:_LONGEST_NAME].rstrip("-")
    return (
        f"gcloud compute firewall-rules create {rule} --project={context.project} "
        f"--network={name} --allow=tcp:{_SSH_PORT} --source-ranges={sources}"
    )


def _overlap(one: str, other: str) -> bool:
    try:
        here, there = ip_network(one), ip_network(other)
    except ValueError:
        return False
    return here.version == there.version and here.overlaps(there)


def ask_way_out(scope: DoctorScope) -> Iterator[HealthCheck]:
    """Whether workers without external addresses reach Google's APIs, and packages."""
    context = scope.context
    if not context.internal_ips:
        yield HealthCheck(WAY_OUT, HealthState.PASS, "slices have external addresses")
        return
    region, network = region_of(context.zone), _network(context)
    subnet = context.subnetwork or network
    has_nat = ask_endpoint(
        scope,
        context.compute_endpoint,
        lambda rest: networks.has_nat(rest, context.project, region, network),
    )
    if has_nat:
        yield HealthCheck(WAY_OUT, HealthState.PASS, f"{region} has a Cloud NAT")
        return
    reaches = ask_endpoint(
        scope,
        context.compute_endpoint,
        lambda rest: networks.reaches_google_apis(rest, context.project, region, subnet),
    )
    yield _line_of_google_access(context, subnet, reaches=reaches)
    if reaches:
        evidence = f"{region} has no Cloud NAT: workers install no packages from the internet"
        yield HealthCheck(WAY_OUT, HealthState.WARN, evidence, _nat_commands(context, network))


def _line_of_google_access(context: Context, subnet: str, *, reaches: bool) -> HealthCheck:
    region = region_of(context.zone)
    if reaches:
        evidence = f"subnet {subnet} of {region} has Private Google Access"
        return HealthCheck(WAY_OUT, HealthState.PASS, evidence)
    evidence = (
        f"subnet {subnet} of {region} has neither Private Google Access nor a Cloud NAT: workers "
        "do not reach the bucket"
    )
    fix = (
        f"gcloud compute networks subnets update {subnet} --region={region} "
        f"--project={context.project} --enable-private-ip-google-access"
    )
    return HealthCheck(WAY_OUT, HealthState.FAIL, evidence, fix)


def _nat_commands(context: Context, network: str) -> str:
    region, name = region_of(context.zone), "tpuctl-nat"
    place = f"--region={region} --project={context.project}"
    return (
        f"gcloud compute routers create {name} --network={network} {place} && "
        f"gcloud compute routers nats create {name} --router={name} {place} "
        "--auto-allocate-nat-external-ips --nat-all-subnet-ip-ranges"
    )


def ask_os_login(scope: DoctorScope) -> Iterator[HealthCheck]:
    """Whether the workers take the keys that tpuctl puts into their metadata."""
    context = scope.context
    metadata = ask_endpoint(
        scope,
        context.compute_endpoint,
        lambda rest: networks.project_metadata(rest, context.project),
    )
    if not is_on(metadata):
        evidence = "off: workers take the key that tpuctl puts into their metadata"
        yield HealthCheck(OS_LOGIN, HealthState.PASS, evidence)
        return
    evidence = (
        f"the project's metadata has {ENABLE}={metadata[ENABLE]}: workers ignore the key that "
        "tpuctl puts into their metadata, unless a slice has the item itself"
    )
    fix = (
        f"gcloud compute project-info add-metadata --project={context.project} "
        f"--metadata={ENABLE}=FALSE"
    )
    yield HealthCheck(OS_LOGIN, HealthState.FAIL, evidence, fix)


def _network(context: Context) -> str:
    return (context.network or DEFAULT_NETWORK).rpartition("/")[2]


CHECKS = (
    of_one_cloud(FIREWALL, ask_network, "compute_endpoint"),
    of_one_cloud(WAY_OUT, ask_way_out, "compute_endpoint"),
    of_one_cloud(OS_LOGIN, ask_os_login, "compute_endpoint"),
)
