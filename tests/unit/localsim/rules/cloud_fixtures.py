"""Rigs of a simulated cloud, closed when the test ends."""

from contextlib import closing

import pytest

from localsim.rules.scenario.scenario import Scenario
from unit.localsim.rules.cloud_rig import Rig


@pytest.fixture
def rig(tmp_path):
    with closing(Rig(tmp_path / "state.sqlite", Scenario())) as found:
        yield found


@pytest.fixture
def rigged(tmp_path):
    """Rigs of other scenarios: `rigged(repair_delay_s=5)`."""
    opened = []

    def open_rig(**settings):
        opened.append(Rig(tmp_path / f"state{len(opened)}.sqlite", Scenario(**settings)))
        return opened[-1]

    yield open_rig
    for each in opened:
        each.close()
