"""The clock of the machine that notes is compared with that of the cloud."""

from dataclasses import replace

from tpuctl.ledger.cloud_clock import known_offset_s, measure_offset_s
from tpuctl.ledger.observer import observer_id
from tpuctl.store import open_store


class Late:
    """A store whose objects are written at a time of its own."""

    def __init__(self, store, now_s):
        self._store, self._now_s = store, now_s

    def __getattr__(self, name):
        return getattr(self._store, name)

    def put_if_generation(self, *args):
        return replace(self._store.put_if_generation(*args), updated_s=self._now_s)


def test_a_clock_that_is_an_hour_ahead_is_corrected(tmp_path):
    store, home = Late(open_store(str(tmp_path / "b")), 1000.0), tmp_path / "home"
    assert known_offset_s(store, home) == 0.0
    assert measure_offset_s(store, home, lambda: 4600.0) == -3600.0
    assert measure_offset_s(store, home, lambda: 4600.0) == known_offset_s(store, home) == -3600.0


def test_an_observer_keeps_its_id_to_itself(tmp_path):
    first = observer_id(tmp_path)
    assert (len(first), observer_id(tmp_path)) == (16, first)
    assert (tmp_path / "observer").stat().st_mode & 0o777 == 0o600
    assert observer_id(tmp_path / "other") != first
