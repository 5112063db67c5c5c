"""Units on threads: what fails is one unit's matter, and who stops listening stops the work."""

import threading

import pytest

from tpuctl.errors import IntegrityError, LocalIOError
from tpuctl.models.transfer import Transfer, TransferFinished, TransferProgress
from tpuctl.operations.stage.transfer.pool import WorkStopped, carry_out

ONE = Transfer("key", "name", 1, 0, is_current=False)


def test_every_unit_is_run():
    units = [lambda report, number=number: report.progress(number) for number in range(1, 101)]
    assert sum(event.size_bytes for event in carry_out(units)) == 5050


@pytest.mark.parametrize(
    ("error", "kind"),
    [(IntegrityError("no"), IntegrityError), (OSError(28, "No space left", "f"), LocalIOError)],
)
def test_what_fails_ends_one_transfer(error, kind):
    def unit(report):
        with report.about(ONE):
            raise error

    failed, arrived = carry_out([unit, lambda report: report.progress(1)], at_once=1)
    assert (failed.subject, type(failed.error), arrived) == (ONE, kind, TransferProgress(1))


def test_a_bug_is_not_an_outcome():
    def unit(report):
        with report.about(ONE):
            raise KeyError("a bug")

    with pytest.raises(KeyError):
        list(carry_out([unit]))


def test_a_source_of_units_that_fails_ends_all():
    def units():
        yield lambda report: report.finished(ONE)
        raise LocalIOError("no")

    with pytest.raises(LocalIOError):
        list(carry_out(units()))


def test_who_stops_listening_stops_the_work():
    ended = threading.Event()

    def endless(report):
        try:
            while True:
                report.progress(1)
        except WorkStopped:
            ended.set()
            raise

    events = carry_out([endless] * 100, at_once=1)
    assert isinstance(next(events), TransferProgress)
    events.close()
    assert ended.is_set()


def test_finished_says_which():
    (event,) = carry_out([lambda report: report.finished(ONE)])
    assert event == TransferFinished(ONE, None)
