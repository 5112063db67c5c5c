"""Cloud TPU with the default scenario and a manual clock, and Google's client for it."""

from collections.abc import Iterator

import pytest
from google.cloud import tpu_v2
from tpu_service import START_S, Service, serving

from localsim.clock import Clock
from localsim.cloud.scenario import Scenario


@pytest.fixture
def service(tmp_path) -> Iterator[Service]:
    """A cloud with a manual clock and the default scenario."""
    with serving(
        tmp_path / "state.sqlite", clock=Clock(manual_start_s=START_S), scenario=Scenario()
    ) as found:
        yield found


@pytest.fixture
def client(service) -> tpu_v2.TpuClient:
    return service.client()
