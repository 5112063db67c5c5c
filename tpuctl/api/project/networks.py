"""Compute Engine: the network of workers, who is let into it, and how they get out of it.

https://cloud.google.com/compute/docs/reference/rest/v1/firewalls/list
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tpuctl.api.answers import ask, ask_pages, parse_answer
from tpuctl.api.tpu.rest import RestApi

_ALL_PROTOCOLS = "all"


@dataclass(frozen=True, slots=True)
class IngressRule:
    """A rule of the firewall that lets traffic in, to every machine of its network."""

    name: str
    network: str
    ports: tuple[tuple[str, int, int], ...]
    """Protocol, first and last port."""
    sources: tuple[str, ...]
    """Ranges of addresses, as `0.0.0.0/0`."""

    def admits(self, protocol: str, port: int) -> bool:
        """Whether connections to the port are let in."""
        return any(
            name in (protocol, _ALL_PROTOCOLS) and first <= port <= last
            for name, first, last in self.ports
        )


def ingress_rules(rest: RestApi, project: str) -> list[IngressRule]:
    """The rules that let traffic in to all machines of a network; raises what `ask` raises.

    Rules for some machines alone (tags, service accounts) are left out: slices have no tags
    unless somebody asks for them.
    """
    path = f"/compute/v1/projects/{project}/global/firewalls?maxResults=500"
    about = f"the firewall of project {project}"
    with parse_answer(about):
        pages = ask_pages(rest, path, about)
        return [_rule(item) for page in pages for item in page.get("items", ()) if _is_open(item)]


def has_network(rest: RestApi, project: str, network: str) -> bool:
    """True for a network that is there; raises NotFoundError and what else `ask` raises."""
    path = f"/compute/v1/projects/{project}/global/networks/{network}"
    return bool(ask(rest, "GET", path, f"network {network}"))


def reaches_google_apis(rest: RestApi, project: str, region: str, subnet: str) -> bool:
    """Whether machines without an external address reach Google's APIs from the subnet."""
    path = f"/compute/v1/projects/{project}/regions/{region}/subnetworks/{subnet}"
    found = ask(rest, "GET", path, f"subnet {subnet} of {region}")
    return bool(found.get("privateIpGoogleAccess"))


def has_nat(rest: RestApi, project: str, region: str, network: str) -> bool:
    """Whether a router of the network has a Cloud NAT in the region."""
    path = f"/compute/v1/projects/{project}/regions/{region}/routers?maxResults=500"
    about = f"the routers of {region}"
    with parse_answer(about):
        pages = ask_pages(rest, path, about)
        routers = [item for page in pages for item in page.get("items", ())]
        return any(each.get("nats") for each in routers if _last(each.get("network")) == network)


def project_metadata(rest: RestApi, project: str) -> Mapping[str, str]:
    """The metadata that every machine of the project has, unless its own says otherwise."""
    about = f"the metadata of {project}"
    found = ask(rest, "GET", f"/compute/v1/projects/{project}", about)
    with parse_answer(about):
        items = found.get("commonInstanceMetadata", {}).get("items", ())
        return {str(item["key"]): str(item.get("value", "")) for item in items}


def _is_open(item: Mapping[str, Any]) -> bool:
    for_some = item.get("targetTags") or item.get("targetServiceAccounts")
    is_ingress = item.get("direction", "INGRESS") == "INGRESS"
    return bool(is_ingress and item.get("allowed") and not item.get("disabled") and not for_some)


def _rule(item: Mapping[str, Any]) -> IngressRule:
    ports = [
        (str(allowed["IPProtocol"]).lower(), *_range(text))
        for allowed in item["allowed"]
        for text in allowed.get("ports") or ["0-65535"]
    ]
    sources = tuple(map(str, item.get("sourceRanges") or ()))
    return IngressRule(str(item["name"]), _last(item.get("network")), tuple(ports), sources)


def _range(text: str) -> tuple[int, int]:
    first, _, last = str(text).partition("-")
    return int(first), int(last or first)


def _last(link: object) -> str:
    return str(link or "").rpartition("/")[2]
