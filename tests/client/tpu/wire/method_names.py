"""Which methods each version of the API has: as Google's clients know it, and as it is served."""

import grpc

from client.workers.doors import V2, V2ALPHA1
from localsim.services.tpu import tpu_methods


def _of_client(version, types, transports) -> tuple[str, ...]:
    with grpc.insecure_channel("127.0.0.1:1") as channel:
        transport = transports.TpuGrpcTransport(channel=channel)
        return tuple(sorted(call._method.rpartition("/")[2] for call in transport._wrapped_methods))


METHODS = {one[0]: _of_client(*one) for one in (V2, V2ALPHA1)}
"""Version -> the methods of google-cloud-tpu, those mixed in included."""

SERVED = {
    version: tuple(
        sorted(each.name for each in tpu_methods.all_methods() if each.version in ("", version))
    )
    for version in METHODS
}
"""Version -> the methods of localsim's table for gRPC, those mixed in included."""

OVER_REST = {
    version: tuple(sorted(each.name for each in tpu_methods.rest_methods(version)))
    for version in METHODS
}
