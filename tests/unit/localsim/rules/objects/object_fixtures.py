"""A store of objects, closed when the test ends."""

import pytest

from unit.localsim.rules.objects.object_rig import ObjectRig


@pytest.fixture
def objects(tmp_path):
    rig = ObjectRig(tmp_path / "storage")
    yield rig
    rig.store.close()
