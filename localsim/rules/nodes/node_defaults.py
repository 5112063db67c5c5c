"""What the service fills in of a node whose creator left it open.

Source: a recording of Google's answers to gcloud for a v5p-8 whose creator named the network
`default` and nothing else (GoogleCloudPlatform/k8s-config-connector,
mockgcp/mocktpu/testdata/node/crud). That an auto mode network has a subnet of its own name in each
region is Compute Engine's documentation; the subnet of any other network is assumed to be so too.
"""

import re
from dataclasses import replace

from localsim import accounts
from localsim.rules.model.nodes import Network, NodeSpec, ServiceAccount
from localsim.rules.model.quota_pools import region_of
from localsim.rules.model.resource_names import last_part
from localsim.rules.state.state import State
from localsim.rules.supply.networks import DEFAULT

SCOPES = tuple(
    f"https://www.googleapis.com/auth/{name}"
    for name in (
        "devstorage.read_write",
        "logging.write",
        "service.management",
        "servicecontrol",
        "cloud-platform",
        "pubsub",
    )
)
"""The scopes of a node's service account when the request names none."""
_FULL_NAME = re.compile(r"projects/[^/]+/.*")


def complete_spec(state: State, name: str, spec: NodeSpec) -> NodeSpec:
    """The spec of the node `name` with its service account, its networks and their subnets."""
    _, project, _, zone = name.split("/")[:4]
    single = None if spec.networks else _full_network(project, zone, spec.network or Network())
    return replace(
        spec,
        service_account=_full_account(state, spec.service_account or ServiceAccount()),
        network=single,
        networks=tuple(_full_network(project, zone, each) for each in spec.networks),
    )


def _full_account(state: State, asked: ServiceAccount) -> ServiceAccount:
    email = "" if asked.email == DEFAULT else asked.email
    return ServiceAccount(
        email or accounts.default_compute_email(state.project_number), asked.scopes or SCOPES
    )


def _full_network(project: str, zone: str, asked: Network) -> Network:
    network, subnet = asked.network or DEFAULT, asked.subnetwork or last_part(asked.network)
    return replace(
        asked,
        network=_full_name(network, f"projects/{project}/global/networks"),
        subnetwork=_full_name(
            subnet or DEFAULT, f"projects/{project}/regions/{region_of(zone)}/subnetworks"
        ),
    )


def _full_name(asked: str, collection: str) -> str:
    """The full name of a resource that may be asked for by its id, a part of its name or a URL."""
    found = _FULL_NAME.search(asked)
    return found[0] if found else f"{collection}/{last_part(asked)}"
