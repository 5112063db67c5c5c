"""What is left of v1 over REST: what gcloud's `compute tpus` commands still ask there.

`tpus list` and `describe`, `accelerator-types`, `versions` and `locations` speak v1 (gcloud 528,
surface/compute/tpus). The fields are those of google.cloud.tpu.v1. That v1 shows the nodes of v2,
and that runtime versions are among its TensorFlow versions, is assumed.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any

from localsim.services.tpu.tpu_methods import LOCATIONS, Method

VERSION = "v1"
CREATION = re.compile(rf"/{VERSION}/projects/[^/]+/locations/[^/]+/nodes")
ABSENT = re.compile(r"/(v1|v1alpha1|v1beta1|v2alpha|v2beta1)/projects/[\s\S]*")
"""The paths of versions that are not served, but for the methods of this module."""
_VERSIONS, _RUNTIME_VERSIONS = "tensorflowVersions", "runtimeVersions"
Document = dict[str, Any]


def is_served(method: Method) -> bool:
    """Whether a method of v2 is served as one of v1."""
    return method.service == LOCATIONS or method.name in _SHOWS


def template(http: str) -> str:
    """The binding of a method of v2 as v1 has it."""
    return http.replace(_RUNTIME_VERSIONS, _VERSIONS)


def current_name(name: str) -> str:
    """The name that a resource of v1 has in v2."""
    return name.replace(f"/{_VERSIONS}/", f"/{_RUNTIME_VERSIONS}/")


def shown(method: Method, document: Document) -> Document:
    """An answer of v2 in the fields of v1."""
    show = _SHOWS.get(method.name)
    return show(document) if show else document


def _node(node: Document) -> Document:
    endpoints = [
        {key: value for key, value in each.items() if key != "accessConfig"}
        for each in node.get("networkEndpoints", ())
    ]
    changed = {
        "tensorflowVersion": node.get("runtimeVersion"),
        "network": node.get("networkConfig", {}).get("network"),
        "serviceAccount": node.get("serviceAccount", {}).get("email"),
        "networkEndpoints": endpoints,
    }
    kept = {key: value for key, value in node.items() if key in _NODE_FIELDS}
    return {**kept, **{key: value for key, value in changed.items() if value}}


def _type(offered: Document) -> Document:
    return {key: value for key, value in offered.items() if key != "acceleratorConfigs"}


def _version(offered: Document) -> Document:
    name = offered["name"].replace(f"/{_RUNTIME_VERSIONS}/", f"/{_VERSIONS}/")
    return {**offered, "name": name}


def _page(
    key: str, show: Callable[[Document], Document], old_key: str = ""
) -> Callable[[Document], Document]:
    def page(document: Document) -> Document:
        items = document.pop(old_key or key, None)
        return document if items is None else {key: [show(each) for each in items], **document}

    return page


_NODE_FIELDS = frozenset(
    ("name", "description", "acceleratorType", "state", "health", "healthDescription", "cidrBlock")
    + ("createTime", "schedulingConfig", "labels", "symptoms")
)
_SHOWS: Mapping[str, Callable[[Document], Document]] = {
    "ListNodes": _page("nodes", _node),
    "GetNode": _node,
    "ListAcceleratorTypes": _page("acceleratorTypes", _type),
    "GetAcceleratorType": _type,
    "ListRuntimeVersions": _page(_VERSIONS, _version, _RUNTIME_VERSIONS),
    "GetRuntimeVersion": _version,
}
