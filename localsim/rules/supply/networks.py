"""What Compute Engine refuses of a slice's network, in its own words.

A network that is not there: https://cloud.google.com/compute/docs/troubleshooting/troubleshooting-vm-creation
The organization's policy, as machines of managed groups report it: "Instance 'I' creation failed:
Constraint constraints/compute.vmExternalIpAccess violated for project 1234567890."
(kubernetes/autoscaler, cluster-autoscaler/cloudprovider/gce). That Cloud TPU passes both on under
the codes below is assumed.
"""

from collections.abc import Sequence

from localsim.rules.model.cloud_errors import CloudError, Code, with_error_id
from localsim.rules.model.nodes import Network, NodeSpec
from localsim.rules.model.resource_names import last_part, zone_of
from localsim.rules.state import external_addresses, subnets
from localsim.rules.state.state import State
from localsim.rules.supply import quota

DEFAULT = "default"
POLICY = "constraints/compute.vmExternalIpAccess"


def require_network(state: State, parent: str, spec: NodeSpec) -> None:
    """Raise CloudError NOT_FOUND when the project has no network of the name that is asked for."""
    known = state.scenario.networks
    asked = spec.networks if spec.network is None else (spec.network,)
    for wanted in asked or (Network(),):
        name = last_part(wanted.network) or DEFAULT
        if known is not None and name not in known:
            path = f"projects/{parent.split('/')[1]}/global/networks/{name}"
            raise CloudError(Code.NOT_FOUND, f"The resource '{path}' was not found")


def require_external_addresses(state: State, zone: str, specs: Sequence[NodeSpec]) -> None:
    """Raise CloudError when a policy forbids external addresses, or too few are left."""
    is_allowed = state.scenario.external_ips == "enabled"
    if not is_allowed and any(map(external_addresses.wants_addresses, specs)):
        sentence = f"Constraint {POLICY} violated for project {state.project_number}."
        raise CloudError(Code.FAILED_PRECONDITION, with_error_id(sentence))
    quota.require_addresses(state, zone, specs)


def require_all(state: State, parent: str, specs: Sequence[NodeSpec]) -> None:
    """Raise CloudError unless nodes, which are alike, find their network and every address."""
    require_network(state, parent, specs[0])
    require_external_addresses(state, zone_of(parent), specs)
    subnets.require_room(state, parent, specs[0].kind.workers * len(specs))
