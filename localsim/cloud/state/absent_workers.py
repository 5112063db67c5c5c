"""Workers that do not exist (`workers: none`), as they make themselves known."""

from base64 import b64encode
from hashlib import sha256

from localsim.cloud.model.nodes import HostIdentity, Node


def identities(node: Node) -> tuple[HostIdentity, ...]:
    """Host names and host keys in the form of those that real workers have; always the same."""
    return tuple(
        HostIdentity(f"t1v-n-{node.id & 0xFFFFFFFF:08x}-w-{index}", _host_key(node, index))
        for index, _ in enumerate(node.addresses)
    )


def _host_key(node: Node, index: int) -> str:
    """A key that nobody holds the other half of."""
    kind, key = b"ssh-ed25519", sha256(f"{node.id}/{index}".encode()).digest()
    blob = b"".join(len(part).to_bytes(4, "big") + part for part in (kind, key))
    return f"{kind.decode()} {b64encode(blob).decode()}"
