"""Cloud TPU with the default scenario and a manual clock, and Google's clients for it."""

from collections.abc import Iterator

import pytest
from google.cloud import tpu_v2

from client.tpu.tpu_service import START_S, Service, serving
from client.workers.doors import NAMES, Door, Endpoint, doors
from localsim.clock import Clock
from localsim.rules.scenario.scenario import Scenario


@pytest.fixture(scope="session")
def served_tpu(tmp_path_factory) -> Iterator[Service]:
    """One server for the session."""
    path = tmp_path_factory.mktemp("cloud") / "state.sqlite"
    with serving(path, clock=Clock(manual_start_s=START_S), scenario=Scenario()) as found:
        yield found


@pytest.fixture
def service(served_tpu) -> Service:
    """An empty cloud with a manual clock and the default scenario."""
    served_tpu.behave()
    return served_tpu


@pytest.fixture
def client(service) -> tpu_v2.TpuClient:
    return service.client()


@pytest.fixture(scope="session")
def open_doors(served_tpu) -> Iterator[dict[str, Door]]:
    """Every client of every version, on one server."""
    ports = (served_tpu.grpc_port, served_tpu.rest_port)
    with doors(Endpoint(*(f"127.0.0.1:{port}" for port in ports))) as found:
        yield found


@pytest.fixture(params=NAMES)
def door(request, open_doors, service) -> Door:
    """Each client in turn, on an empty cloud."""
    return open_doors[request.param]
