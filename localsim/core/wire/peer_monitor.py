"""Who is alive: every worker beats to every other, also while its program computes.

A thread beats and listens, on connections of its own. A worker is lost when its connection breaks
or when nothing was heard of it for a while; a slow one is not. Whoever gives up or ends says so
first, so that nobody takes the bearer of bad news for the lost one. A program that keeps Python's
lock for longer than the limit (one long call of a C function that does not release it; numpy's do)
is taken for lost.
"""

import contextlib
import json
import selectors
import socket
import threading
import time
from collections.abc import Mapping
from typing import Any, NamedTuple

SILENCE_S = 7.0
"""So long a lost worker may be silent before it is called lost."""
_BEATS = 14
"""How many beats a worker sends in that time."""
_FAREWELL_S = 1.0
"""The most that a farewell takes; and the most that news take from a worker that closed a link."""
_MOST_BYTES = 65536


class Progress(NamedTuple):
    """How far a worker is: number of the collective, round in it, and the collective in words."""

    number: int = 0
    round: int = 0
    words: str = ""


class PeerMonitor:
    """The beats between this worker and its peers."""

    def __init__(
        self, worker_id: int, links: Mapping[int, socket.socket], *, silence_s: float = SILENCE_S
    ) -> None:
        """Takes the links over, peer by peer, and begins to beat."""
        self.verdict: str | None = None
        """Why the mesh is over, once it is."""
        self.silence_s = silence_s
        self._worker_id = worker_id
        self._links = dict(links)
        self._progress = Progress()
        self._farewell: dict[str, str] | None = None
        self._left: dict[int, str] = {}
        self._rest = dict.fromkeys(links, b"")
        self._heard_s = dict.fromkeys(links, time.monotonic())
        self._reached = dict.fromkeys(links, (Progress(), 0.0))
        self._news = threading.Condition()
        self._selector = selectors.DefaultSelector()
        self._waker, self._woken = socket.socketpair()
        for peer, link in links.items():
            link.settimeout(0)
            self._selector.register(link, selectors.EVENT_READ, peer)
        self._selector.register(self._woken, selectors.EVENT_READ, None)
        self._thread = threading.Thread(target=self._live, name="mesh-pulse", daemon=True)
        if links:
            self._thread.start()

    def arrive(self, progress: Progress) -> None:
        """Report in every beat from now on that the program has come so far."""
        self._progress = progress

    def has_reached_s(self, peer: int, here: Progress) -> float:
        """Seconds since the peer said that it had come as far as `here`; 0 while it has not."""
        reached, since_s = self._reached[peer]
        return time.monotonic() - since_s if reached[:2] >= here[:2] else 0.0

    def break_reason(self, peer: int, otherwise: str) -> str:
        """Why a peer has closed a link: waits a little for what it, or another, has to say."""
        with self._news:
            self._news.wait_for(lambda: self.verdict or peer in self._left, _FAREWELL_S)
            return self.verdict or _lost(peer, self._left.get(peer, otherwise))

    def end(self, farewell: dict[str, str]) -> None:
        """Say a last word to all, {"bye": why} or {"over": why}, and end the connections; once."""
        if self._farewell is not None:
            return
        self._farewell = farewell
        self._waker.send(b"!")
        if self._thread.is_alive():
            self._thread.join()
        self._waker.close()
        self._woken.close()
        self._selector.close()

    def _live(self) -> None:
        beat_s = self.silence_s / _BEATS
        now_s = due_s = time.monotonic()
        while self._farewell is None:
            if now_s >= due_s:
                self._tell({"at": list(self._progress)})
                due_s = now_s + beat_s
            before_s = time.monotonic()
            readable = self._selector.select(max(0.0, due_s - before_s))
            now_s = time.monotonic()
            self._listen([key.data for key, _ in readable if key.data is not None], now_s)
            # While this worker itself stood still, nobody's silence counts.
            self._judge(now_s, stood_still_s=max(0.0, now_s - before_s - 2 * beat_s))
        self._part()

    def _tell(self, words: dict[str, Any]) -> None:
        line = json.dumps(words).encode() + b"\n"
        for peer, link in list(self._links.items()):
            try:
                whole = link.send(line) == len(line)
            except BlockingIOError:
                continue  # it has not read for very long: its silence will tell
            except OSError:
                continue  # what it said last may still be there to read
            if not whole:
                self._lose(peer, "it does not read what it is told")

    def _listen(self, peers: list[int], now_s: float) -> None:
        for peer in peers:
            try:
                data = self._links[peer].recv(_MOST_BYTES)
            except BlockingIOError:
                continue
            except OSError:
                data = b""  # reset: it has ended without reading the last beats
            if data:
                self._heard_s[peer] = now_s
                self._hear(peer, data, now_s)
            elif peer in self._left:
                self._drop(peer)
            else:
                self._lose(peer, "it closed the connection")

    def _hear(self, peer: int, data: bytes, now_s: float) -> None:
        *lines, self._rest[peer] = (self._rest[peer] + data).split(b"\n")
        try:
            for line in lines:
                self._understand(peer, json.loads(line), now_s)
            if len(self._rest[peer]) > _MOST_BYTES:
                raise ValueError
        except (ValueError, TypeError, AttributeError, RecursionError):
            self._lose(peer, "it speaks another language")

    def _understand(self, peer: int, words: dict[str, Any], now_s: float) -> None:
        if "over" in words:
            self._conclude(str(words["over"]))
        elif "bye" in words:
            with self._news:
                self._left[peer] = str(words["bye"])
                self._news.notify_all()
        else:
            number, rounds, collective = words["at"]
            here, there = self._progress, Progress(int(number), int(rounds), str(collective))
            if there != self._reached[peer][0]:
                self._reached[peer] = there, now_s
            if there.number == here.number and there.words != here.words:
                self._conclude(mismatch((self._worker_id, here), (peer, there)))

    def _judge(self, now_s: float, *, stood_still_s: float) -> None:
        for peer in list(self._links):
            self._heard_s[peer] += stood_still_s
            if now_s - self._heard_s[peer] > self.silence_s:
                # Its link stays: should it go on, the farewell tells it that it was given up.
                self._conclude(_lost(peer, "it was silent for too long"))

    def _lose(self, peer: int, reason: str) -> None:
        self._drop(peer)
        if peer not in self._left:
            self._conclude(_lost(peer, reason))

    def _conclude(self, verdict: str) -> None:
        with self._news:
            self.verdict = self.verdict or verdict
            self._news.notify_all()

    def _drop(self, peer: int) -> None:
        link = self._links.pop(peer)
        self._selector.unregister(link)
        link.close()

    def _part(self) -> None:
        """Say the last word, and read until the others have hung up.

        Closing a connection in which something is unread destroys what was sent last.
        """
        self._tell(self._farewell or {})
        now_s = time.monotonic()
        until_s = now_s + _FAREWELL_S
        for peer, link in list(self._links.items()):
            if now_s - self._heard_s[peer] > self.silence_s:
                self._drop(peer)  # it would not answer; what it was told waits for it
                continue
            with contextlib.suppress(OSError):
                link.shutdown(socket.SHUT_WR)
        self._selector.unregister(self._woken)
        while self._links and (left_s := until_s - time.monotonic()) > 0:
            for key, _ in self._selector.select(left_s):
                try:
                    is_open = bool(self._links[key.data].recv(_MOST_BYTES))
                except OSError:
                    is_open = False
                if not is_open:
                    self._drop(key.data)
        for peer in list(self._links):
            self._drop(peer)


def mismatch(here: tuple[int, Progress], there: tuple[int, Progress]) -> str:
    """The message about two workers at different collectives, the same on both sides."""
    (low_id, low), (high_id, high) = sorted([here, there])
    return (
        f"the workers are at different collectives: worker {low_id} at number {low.number}, "
        f"{low.words}; worker {high_id} at number {high.number}, {high.words}"
    )


def _lost(peer: int, reason: str) -> str:
    return f"worker {peer} is lost: {reason}"
