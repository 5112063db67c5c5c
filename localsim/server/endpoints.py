"""The line of endpoints, which clients read. Its keys are public."""

import os
from collections.abc import Mapping
from typing import Any

from localsim.service_ports import LOOPBACK
from localsim.state_directory import StateDirectory

OTHER_APIS = ("compute", "serviceusage", "cloudresourcemanager", "secretmanager", "oauth2")
"""They share a port: no path of one is a path of another."""


def endpoints_document(
    identity: Mapping[str, Any], state: StateDirectory, ports: Mapping[str, int]
) -> dict[str, Any]:
    """The first line on stdout; `identity` has name, project, zone, bucket and mode."""
    neighbours = _http(ports["neighbours"])
    return {
        "name": identity["name"],
        "pid": os.getpid(),
        "state_dir": str(state.path),
        "project": identity["project"],
        "zone": identity["zone"],
        "bucket": identity["bucket"],
        **{key: identity[key] for key in ("mode", "mode_reason") if key in identity},
        "tpu_grpc": f"{LOOPBACK}:{ports['tpu_grpc']}",
        "tpu_rest": _http(ports["tpu_rest"]),
        "storage": _http(ports["storage"]),
        **dict.fromkeys(OTHER_APIS, neighbours),
        "vpc": f"socks5://{LOOPBACK}:{ports['vpc']}",
        "control": _http(ports["control"]),
    }


def _http(port: int) -> str:
    return f"http://{LOOPBACK}:{port}"
