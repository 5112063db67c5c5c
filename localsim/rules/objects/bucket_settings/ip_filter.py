"""The IP filter of a bucket: which addresses may send requests for it.

cloud.google.com/storage/docs/ip-filtering-overview. Google's public ranges are public addresses;
here they may be loopback ones, by which clients of this machine come.
"""

import re
from collections.abc import Iterable
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import Any

from localsim.rules.objects.bucket_settings.value_types import (
    boolean_value,
    list_value,
    object_value,
    text_list,
    text_value,
    word_value,
)
from localsim.rules.objects.storage_model import Properties, StorageError, invalid

IP_FILTER = "ipFilter"
MAX_RANGES = 200
EXEMPTION = "storage.buckets.exemptFromIpFilter"
EXEMPT_METHODS = ("storage.buckets.get", "storage.buckets.patch", "storage.buckets.delete")
"""What who holds the exemption may always do, so as never to be locked out."""
_NETWORK = re.compile(r"projects/[^/]+/global/networks/[^/]+")
_FLAGS = ("allowAllServiceAgentAccess", "allowCrossOrgVpcs")


def checked_ip_filter(value: Any) -> dict[str, Any] | None:
    """A filter as it is kept; None without one."""
    if not value:
        return None
    given = object_value(IP_FILTER, value)
    kept: dict[str, Any] = {"mode": word_value(given.get("mode"), ("Enabled", "Disabled"))}
    if given.get("publicNetworkSource") is not None:
        source = object_value("publicNetworkSource", given["publicNetworkSource"])
        kept["publicNetworkSource"] = {"allowedIpCidrRanges": _ranges(source)}
    if given.get("vpcNetworkSources") is not None:
        sources = list_value("vpcNetworkSources", given["vpcNetworkSources"])
        kept["vpcNetworkSources"] = [_vpc_source(source) for source in sources]
    flags = {name: boolean_value(given[name]) for name in _FLAGS if given.get(name) is not None}
    if sum(1 for _ in _all_ranges(kept)) > MAX_RANGES:
        raise invalid(f"An IP filter has at most {MAX_RANGES} ranges.")
    return kept | flags


def filters_addresses(settings: Properties) -> bool:
    """Whether a bucket with these settings refuses requests by their address."""
    return (settings.get(IP_FILTER) or {}).get("mode") == "Enabled"


def check_address(settings: Properties, address: str) -> None:
    """Raise StorageError 403 for a request from an address that the filter does not admit."""
    if not filters_addresses(settings) or _is_within(address, _all_ranges(settings[IP_FILTER])):
        return
    message = "There is an IP filtering condition that is preventing access to the resource."
    raise StorageError(403, "forbidden", message)


def summarized_filter(settings: Properties) -> Properties:
    """The settings as a list shows them: of the filter without its ranges."""
    if IP_FILTER not in settings:
        return settings
    shown = {
        name: settings[IP_FILTER][name] for name in ("mode", *_FLAGS) if name in settings[IP_FILTER]
    }
    return {**settings, IP_FILTER: shown}


def _vpc_source(value: Any) -> dict[str, Any]:
    source = object_value("vpcNetworkSources", value)
    network = text_value("network", source.get("network"))
    if not _NETWORK.fullmatch(network):
        raise invalid(f"Invalid value for network: '{network}'")
    return {"network": network, "allowedIpCidrRanges": _ranges(source)}


def _ranges(source: Any) -> list[str]:
    ranges = text_list("allowedIpCidrRanges", source.get("allowedIpCidrRanges") or [])
    for text in ranges:
        try:
            ip_network(text)
        except ValueError:
            raise invalid(f"Invalid value for allowedIpCidrRanges: '{text}'") from None
    return ranges


def _all_ranges(filtered: Properties) -> Iterable[str]:
    sources = [
        filtered.get("publicNetworkSource") or {},
        *(filtered.get("vpcNetworkSources") or ()),
    ]
    return (text for source in sources for text in source.get("allowedIpCidrRanges", ()))


def _is_within(address: str, ranges: Iterable[str]) -> bool:
    try:
        found: IPv4Address | IPv6Address = ip_address(address.partition("%")[0])
    except ValueError:
        return False
    if isinstance(found, IPv6Address) and found.ipv4_mapped is not None:
        found = found.ipv4_mapped
    return any(found in ip_network(text) for text in ranges)
