"""The VPC's subnets, one per zone, and the internal addresses of workers in them.

Zones get 10.128.0.0/16, 10.129.0.0/16 and so on in the order in which they get their first node.
As in every subnet of Google, the first two and the last two addresses are not given out.
"""

from ipaddress import IPv4Address

from localsim.cloud.model.cloud_errors import CloudError, Code
from localsim.cloud.state.state import State

FIRST_SUBNET = int(IPv4Address("10.128.0.0"))
SUBNET_ADDRESSES = 1 << 16
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
    first = FIRST_SUBNET + index * SUBNET_ADDRESSES + RESERVED_FIRST
    addresses: list[str] = []
    while len(addresses) < count:
        address = str(IPv4Address(first + state.count(counter) % USABLE))
        if address not in state.nodes_by_address:
            addresses.append(address)
    return tuple(addresses)


def require_room(state: State, zone: str, count: int) -> None:
    """Raise RESOURCE_EXHAUSTED when the zone's subnet has fewer addresses left."""
    if state.workers_held[zone] + count > USABLE:
        sentence = f"IP_SPACE_EXHAUSTED: the subnet of zone '{zone}' has no {count} addresses left."
        raise CloudError(Code.RESOURCE_EXHAUSTED, sentence)


def _index(state: State, zone: str) -> int:
    """The zone's number in the order of first use, which never changes."""
    name = f"{_MET}/{zone}"
    place = state.count(name, 0)
    if not place:
        place = state.count(_MET) + 1
        state.count(name, place)
    return place - 1
