"""Local clouds: what their endpoint line says."""

import pytest

from tpuctl.errors import PreconditionError
from tpuctl.operations.local.local_cloud import context_of


def test_the_simulator_of_an_older_tpuctl_is_named_with_the_way_out():
    with pytest.raises(
        PreconditionError, match="'old' runs in an older version: it has no project"
    ) as error:
        context_of({"name": "old"})
    assert error.value.hint == "run: tpuctl local down --name old; it starts again by itself"
