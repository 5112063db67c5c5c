"""Checks of the bucket: whether it is beside the zone, and what reading it costs."""

from collections.abc import Iterator

from tpuctl.api.project.bucket_access import facts_of_bucket
from tpuctl.catalog.egress import EgressRate, egress_rate
from tpuctl.models.health import HealthCheck, HealthState
from tpuctl.models.quota_holders import region_of
from tpuctl.operations.health.checks.cloud.caller import ask_endpoint, edit_command, of_bucket
from tpuctl.operations.health.scope import DoctorScope

PLACE, CLASS = "bucket beside the zone", "class of the bucket"
_STANDARD = "STANDARD"


def ask_bucket_place(scope: DoctorScope) -> Iterator[HealthCheck]:
    """Whether what workers read of the bucket is near and free."""
    context = scope.context
    facts = ask_endpoint(
        scope, context.storage_endpoint, lambda rest: facts_of_bucket(rest, context.bucket)
    )
    region, place = region_of(context.zone), facts.location.lower()
    rate = egress_rate(facts.location, facts.location_type, facts.data_locations, region)
    if rate is None:
        evidence = f"gs://{context.bucket} is in {place}, beside {context.zone}"
        yield HealthCheck(PLACE, HealthState.PASS, evidence)
    else:
        evidence = (
            f"gs://{context.bucket} is in {place}, and {context.zone} is not: reads are slower, "
            f"and {_price(rate)}"
        )
        yield HealthCheck(PLACE, HealthState.WARN, evidence, _nearer_bucket(scope))
    yield _line_of_class(context.bucket, facts.storage_class)


def _line_of_class(bucket: str, storage_class: str) -> HealthCheck:
    if storage_class == _STANDARD:
        return HealthCheck(CLASS, HealthState.PASS, f"gs://{bucket} is {_STANDARD}")
    evidence = (
        f"new objects of gs://{bucket} are {storage_class}: each read costs a retrieval fee, and "
        "each early deletion the rest of the minimum duration"
    )
    fix = f"gcloud storage buckets update gs://{bucket} --default-storage-class={_STANDARD}"
    return HealthCheck(CLASS, HealthState.WARN, evidence, fix)


def _price(rate: EgressRate) -> str:
    if rate.usd_per_gib is None:
        return "are charged as egress"
    return f"cost {rate.usd_per_gib:.2f} USD/GiB of egress"


def _nearer_bucket(scope: DoctorScope) -> str | None:
    """The commands that make a bucket beside the zone and have the context use it, if it can."""
    context = scope.context
    region = region_of(context.zone)
    name = f"{context.bucket[: 62 - len(region)]}-{region}"
    edit = edit_command(scope, "--bucket", name)
    create = (
        f"gcloud storage buckets create gs://{name} --location={region} --project={context.project}"
    )
    return edit and f"{create} && {edit}"


CHECKS = (of_bucket(PLACE, ask_bucket_place),)
