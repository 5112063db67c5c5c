"""Where a worker finds itself: in the environment, or as libtpu does at the metadata server.

On a TPU VM no variable says anything: the metadata server is asked, and the workers meet at a fixed
port. Where workers share one machine, variables say it all.
"""

import http.client
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from localsim.core.wire.links import MeshError
from tpuctl.catalog import default_type

PORT = 8476
"""Where libtpu's processes meet unless TPU_PROCESS_ADDRESSES says otherwise."""
_METADATA = "metadata.google.internal"
_ATTRIBUTES = "/computeMetadata/v1/instance/attributes/"
_ANSWER_S = 5.0
_GOOGLE_PCI = "0x1ae0"
_PCI_DEVICES = Path("/sys/bus/pci/devices")
_TOLD = ("TPU_ACCELERATOR_TYPE", "TPU_PROCESS_ADDRESSES", "TPU_WORKER_ID", "TPU_SKIP_MDS_QUERY")


@dataclass(frozen=True, slots=True)
class SliceMembership:
    """A worker's place in its slice; `addresses` are host:port of every worker."""

    accelerator_type: str
    worker_id: int
    addresses: tuple[str, ...]


def find_membership(environ: Mapping[str, str]) -> SliceMembership:
    """This worker's place; a slice of one chip where nothing tells of another.

    Raises MeshError where neither variables nor the metadata server say it.
    """
    server = environ.get("GCE_METADATA_IP", _METADATA)
    if any(name in environ for name in _TOLD) or not _has_server(environ):
        addresses = environ.get("TPU_PROCESS_ADDRESSES", "").split(",")
        return SliceMembership(
            environ.get("TPU_ACCELERATOR_TYPE") or default_type("outside a slice"),
            _number("TPU_WORKER_ID", environ.get("TPU_WORKER_ID", "0")),
            tuple(filter(None, addresses)),
        )
    endpoints = [each for each in _ask(server, "worker-network-endpoints").split(",") if each]
    return SliceMembership(
        _ask(server, "accelerator-type"),
        _number("agent-worker-number", _ask(server, "agent-worker-number")),
        # Of the old form, unknown:unknown:10.0.0.2, or a bare host.
        tuple(f"{each.rpartition(':')[2]}:{PORT}" for each in endpoints),
    )


def _has_server(environ: Mapping[str, str]) -> bool:
    """Whether this is a TPU VM: it is told of a metadata server, or it has chips."""
    return "GCE_METADATA_IP" in environ or any(
        _vendor(device) == _GOOGLE_PCI for device in _PCI_DEVICES.glob("*")
    )


def _vendor(device: Path) -> str:
    try:
        return (device / "vendor").read_text().strip()
    except OSError:
        return ""


def _ask(server: str, key: str) -> str:
    connection = http.client.HTTPConnection(server, timeout=_ANSWER_S)
    try:
        connection.request("GET", f"{_ATTRIBUTES}{key}", headers={"Metadata-Flavor": "Google"})
        response = connection.getresponse()
        text = response.read().decode().strip()
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise MeshError(f"{server} does not tell {key}: {error}") from error
    finally:
        connection.close()
    if response.status != http.client.OK or not text:
        raise MeshError(f"{server} does not tell {key}: status {response.status}")
    return text


def _number(name: str, text: str) -> int:
    try:
        return int(text)
    except ValueError as error:
        raise MeshError(f"{name} is {text!r}") from error
