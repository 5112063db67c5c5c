"""Whether a job's regions have external addresses for its slices, told before it is submitted."""

from tpuctl.api.compute import AddressQuota
from tpuctl.api.tpu.hints import QR, CallSubject
from tpuctl.api.tpu.network_errors import AddressLimitError, wanted_addresses
from tpuctl.errors import TpuctlError
from tpuctl.jobs.interfaces import Backends
from tpuctl.jobs.submit.placement import Placement
from tpuctl.models.job import JobSpec
from tpuctl.models.quota_holders import region_of
from tpuctl.models.search import Place


def check_addresses(backends: Backends, spec: JobSpec, place: Placement) -> list[str]:
    """A line for each zone that has too few external addresses left; nothing where none are asked.

    Raises AddressLimitError when no place of the job ever has as many as its slices need.
    """
    if spec.resources.options.internal_ips or backends.addresses is None:
        return []
    quotas = _read_quotas(backends, place)
    shortages = {each: _shortage(backends, spec, each, quotas) for each in place.places}
    never = [error for error in shortages.values() if isinstance(error, AddressLimitError)]
    if never and len(never) == len(shortages):
        raise never[0]
    lines = [_line(each.zone, error) for each, error in shortages.items() if error is not None]
    return list(dict.fromkeys(lines))


def _line(zone: str, error: TpuctlError) -> str:
    never = isinstance(error, AddressLimitError)
    what = f"no slice can be had in {zone}" if never else f"{zone} has to wait for others"
    return f"{error}: {what}; {error.hint}"


def _read_quotas(backends: Backends, place: Placement) -> dict[str, AddressQuota]:
    """The quota of each region, as far as somebody may tell."""
    found = {}
    for region in dict.fromkeys(map(region_of, place.zones)):
        try:
            found[region] = backends.addresses(region) if backends.addresses else None
        except TpuctlError:
            continue
    return {region: quota for region, quota in found.items() if quota is not None}


def _shortage(
    backends: Backends, spec: JobSpec, place: Place, quotas: dict[str, AddressQuota]
) -> TpuctlError | None:
    wanted = wanted_addresses(place.accelerator_type, spec.resources.num_slices)
    quota = quotas.get(region_of(place.zone))
    if quota is None or not wanted:
        return None
    options = spec.resources.options
    about = CallSubject(
        f"job {spec.name!r}",
        QR,
        zone=place.zone,
        project=backends.project,
        network=options.network or "",
        subnetwork=options.subnetwork or "",
    )
    return quota.shortage(wanted, about)
