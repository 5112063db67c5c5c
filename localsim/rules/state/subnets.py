"""The VPC's subnets, one per zone, and the internal addresses of workers in them.

Zones get 10.128.0.0/16, 10.129.0.0/16 and so on in the order in which they get their first node.
As in every subnet of Google, the first two and the last two addresses are not given out. The
scenario may make a subnet smaller.
"""

from ipaddress import IPv4Address, IPv4Network

from localsim.rules.model.cloud_errors import CloudError, Code, with_error_id
from localsim.rules.model.quota_pools import region_of
from localsim.rules.state.state import State

FIRST_SUBNET = int(IPv4Address("10.128.0.0"))
PREFIX = 16
SUBNET_ADDRESSES = 1 << (32 - PREFIX)
RESERVED_FIRST = 2
USABLE = SUBNET_ADDRESSES - 4
_MET = "subnets"


def new_addresses(state: State, zone: str, count: int) -> tuple[str, ...]:
    """Free addresses of the zone; one is reused after all others were given out.

    The caller has checked with `require_room` that there are enough.
    """
    index = _index(state, zone)
    # Up to the first version with subnets one counter served every zone.
    counter = f"addresses/{index}" if index else "addresses"
    usable = _usable(state, zone)
    first = FIRST_SUBNET + index * SUBNET_ADDRESSES + RESERVED_FIRST
    addresses: list[str] = []
    while len(addresses) < count:
        address = str(IPv4Address(first + state.count(counter) % usable))
        if address not in state.nodes_by_address:
            addresses.append(address)
    return tuple(addresses)


def block_of(address: str) -> str:
    """The CIDR block of the subnet that an internal address belongs to."""
    return str(IPv4Network(f"{address}/{PREFIX}", strict=False))


def require_room(state: State, parent: str, count: int) -> None:
    """Raise RESOURCE_EXHAUSTED when the subnet of a zone has fewer addresses left.

    The words are Compute Engine's: https://cloud.google.com/dataflow/docs/guides/common-errors
    """
    _, project, _, zone = parent.split("/")
    if state.workers_held[zone] + count > _usable(state, zone):
        subnet = f"projects/{project}/regions/{region_of(zone)}/subnetworks/default"
        sentence = f"IP_SPACE_EXHAUSTED: IP space of '{subnet}' is exhausted."
        raise CloudError(Code.RESOURCE_EXHAUSTED, with_error_id(sentence))


def _usable(state: State, zone: str) -> int:
    """How many addresses workers of the zone may have together."""
    return min(USABLE, state.scenario.subnets.get(zone, USABLE))


def _index(state: State, zone: str) -> int:
    """The zone's number in the order of first use, which never changes."""
    name = f"{_MET}/{zone}"
    place = state.count(name, 0)
    if not place:
        place = state.count(_MET) + 1
        state.count(name, place)
    return place - 1
