"""A slice that nobody reaches: it works as long as the bucket gets more of its log."""

from tpuctl.jobs.supervisor.signs_of_life import SignsOfLife, is_silence
from tpuctl.models.job import Phase, WorkerReport
from tpuctl.store import open_store

ANSWERS = WorkerReport(0, Phase.RUNNING)
SILENT = WorkerReport(1, Phase.RUNNING, unreachable_s=30.0)
CLOSED = WorkerReport(2, Phase.ENDED, closed=True)


def told(signs, store, now_s, *reports):
    """Until when silence is excused, after a turn at that time."""
    if signs.is_due(reports, now_s):
        signs.look(store, "digits-1", 1, now_s)
    return signs.note(reports, now_s)


def write(store, worker, start):
    """A part of a worker's log, as its agent sends it."""
    store.put_if_absent(f"tpuctl/jobs/digits-1/logs/a1/w{worker}/{start:012d}", b"step=1\n")


def test_only_when_nobody_answers_the_bucket_is_asked():
    assert is_silence([SILENT, CLOSED])
    assert not is_silence([SILENT, ANSWERS])
    assert not is_silence([CLOSED])
    assert not is_silence([])


def test_silence_is_excused_while_the_log_grows_and_a_minute_longer(tmp_path):
    signs, store = SignsOfLife(), open_store(str(tmp_path))
    write(store, 0, 0)
    assert told(signs, store, 100.0, SILENT) is None  # it may be what came before the silence
    assert told(signs, store, 110.0, SILENT) is None
    write(store, 0, 7)
    assert told(signs, store, 115.0, SILENT) is None  # the last look is not old enough
    assert told(signs, store, 120.0, SILENT) == 120.0
    assert told(signs, store, 180.0, SILENT) == 180.0
    assert told(signs, store, 181.0, SILENT) == 180.0
    write(store, 1, 0)
    assert told(signs, store, 200.0, SILENT) == 200.0
    assert told(signs, store, 210.0, SILENT, ANSWERS) == 200.0
