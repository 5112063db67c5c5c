"""A source that changes while it is read is never sent half old and half new."""

import pytest

from tpuctl.errors import IntegrityError
from tpuctl.models.transfer import Plan, Transfer
from tpuctl.operations import stage
from tpuctl.store import open_store


def test_reading_on_after_a_change_is_refused(tmp_path):
    path = tmp_path / "growing"
    path.write_bytes(b"old" * 100)
    with stage.Unchanging(path) as file:
        assert file.read(10) == b"oldoldoldo"
        path.write_bytes(b"new" * 101)
        with pytest.raises(IntegrityError, match="changed while it was read"):
            file.read(10)


def test_an_object_that_changed_since_the_plan_is_left_alone(tmp_path):
    store = open_store(str(tmp_path / "bucket"))
    seen = store.put_if_absent("key", b"first")
    store.put_if_generation("key", b"somebody else's", seen.generation)
    (tmp_path / "file").write_bytes(b"mine")
    one = Transfer("key", tmp_path / "file", 4, seen.generation, is_current=False)
    (sent,) = stage.push(Plan((one,)), store)
    assert sent.error is not None
    assert store.get_range("key") == b"somebody else's"
