"""Events of a stream, wherever its bytes are cut."""

import pytest

from tpuctl.operations.load import event_stream
from tpuctl.operations.load.event_stream import EventSplitter, StreamEvent

STREAM = (
    b": a comment\n\n"
    b'data: {"n": 1}\n\n'
    b"event: error\r\ndata:bad\r\n\r\n"
    b"data: two\ndata: lines\n\n"
    b"id: 7\n\n"
    b"data: [DONE]\n\n"
)
EVENTS = [
    StreamEvent(b"", b'{"n": 1}'),
    StreamEvent(b"error", b"bad"),
    StreamEvent(b"", b"two\nlines"),
    StreamEvent(b"", b"[DONE]"),
]


def test_events_are_the_same_wherever_the_bytes_are_cut():
    for size in (1, 2, 3, 7, len(STREAM)):
        splitter = EventSplitter()
        chunks = [STREAM[at : at + size] for at in range(0, len(STREAM), size)]
        assert [event for chunk in chunks for event in splitter.feed(chunk)] == EVENTS, size
    assert [event.is_done for event in EVENTS] == [False, False, False, True]


def test_an_event_that_does_not_end_is_refused(monkeypatch):
    monkeypatch.setattr(event_stream, "MOST_BYTES", 10)
    splitter = EventSplitter()
    assert splitter.feed(b"data: 1") == []
    with pytest.raises(ValueError, match="more than 10 bytes"):
        splitter.feed(b"2345678")
