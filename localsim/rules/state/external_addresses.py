"""External addresses of workers: one each, when the network configuration asks for them.

They come from 198.18.0.0/15, which is for tests and is routed nowhere: a program that tries one
never meets somebody else's machine.
"""

from ipaddress import IPv4Address, IPv4Network

from localsim.rules.model.nodes import NodeSpec
from localsim.rules.state.state import State

BLOCK = IPv4Network("198.18.0.0/15")
_USABLE = BLOCK.num_addresses - 2


def wants_addresses(spec: NodeSpec) -> bool:
    """Whether any interface of the workers asks for external addresses."""
    networks = spec.networks if spec.network is None else (spec.network,)
    return any(network.enable_external_ips for network in networks)


def assign_addresses(state: State, spec: NodeSpec, workers: int) -> tuple[str, ...]:
    """One address per worker that no other node has; none where none are asked for."""
    return tuple(_next(state) for _ in range(workers)) if wants_addresses(spec) else ()


def _next(state: State) -> str:
    while True:
        number = state.count("external addresses")
        address = str(IPv4Address(int(BLOCK.network_address) + 1 + number % _USABLE))
        if number < _USABLE or all(address not in node.external_addresses for node in state.nodes):
            return address
