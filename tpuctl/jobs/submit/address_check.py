"""Whether a job's regions have external addresses for its slices, told before it is submitted."""

from collections.abc import Mapping, Sequence
from contextlib import suppress

from tpuctl.api.compute import AddressQuota, AddressReader
from tpuctl.api.tpu.hints import QR, CallSubject
from tpuctl.api.tpu.network_errors import AddressLimitError, wanted_addresses
from tpuctl.errors import TpuctlError
from tpuctl.jobs.interfaces import Backends
from tpuctl.models.job import JobSpec
from tpuctl.models.quota_holders import region_of
from tpuctl.models.search import Place


def check_addresses(backends: Backends, spec: JobSpec, places: Sequence[Place]) -> list[str]:
    """A line for each place that has too few external addresses left; none where none are wanted.

    Raises AddressLimitError when no place of the job ever has as many as its slices need.
    """
    if spec.resources.options.internal_ips or backends.addresses is None:
        return []
    quotas = _read_quotas(backends.addresses, places)
    shortages = [(place, _shortage(backends, spec, place, quotas)) for place in places]
    never = [error for _, error in shortages if isinstance(error, AddressLimitError)]
    if never and len(never) == len(shortages):
        raise never[0]
    return [_line(place, error) for place, error in shortages if error is not None]


def _line(place: Place, error: TpuctlError) -> str:
    never = isinstance(error, AddressLimitError)
    what = f"{place.accelerator_type} in {place.zone}"
    ends = f"{what} cannot be had" if never else f"{what} has to wait for others"
    return f"{error}: {ends}; {error.hint}"


def _read_quotas(read: AddressReader, places: Sequence[Place]) -> dict[str, AddressQuota]:
    """The quota of each region, as far as somebody may tell."""
    found = {}
    for region in dict.fromkeys(region_of(place.zone) for place in places):
        with suppress(TpuctlError):
            found[region] = read(region)
    return found


def _shortage(
    backends: Backends, spec: JobSpec, place: Place, quotas: Mapping[str, AddressQuota]
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
