"""What is left of v1 over REST: the zones, for gcloud's `tpus locations`; nodes nobody can make."""

import re

from localsim.cloud.model.cloud_errors import precondition
from localsim.services.tpu.tpu_methods import LOCATIONS, Method, rest_methods

VERSION = "v1"
_NODES = re.compile(rf"/{VERSION}/projects/[^/]+/locations/[^/]+/nodes")


def methods() -> tuple[Method, ...]:
    """The zones; messages and answers are those of every version."""
    return tuple(method for method in rest_methods("v2") if method.service == LOCATIONS)


def refuse_creation(verb: str, path: str) -> None:
    """Raise CloudError when a legacy node is asked for; Google denies it to everybody."""
    if verb == "POST" and _NODES.fullmatch(path):
        raise precondition("Creation of legacy TPU nodes is denied; create a TPU VM instead.")
