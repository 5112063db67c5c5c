"""Commands, terminals and refusals, the same in every mode of isolation."""

from collections.abc import Mapping
from dataclasses import dataclass


class NotPossibleError(Exception):
    """This mode of isolation cannot do that; str() says which one can."""


@dataclass(frozen=True, slots=True)
class TerminalPair:
    """A new terminal of the worker: our end, the program's end, and its name as programs see it."""

    ours: int
    theirs: int
    name: str


@dataclass(frozen=True, slots=True)
class HostUsage:
    """What the programs of one worker use."""

    busy_s: float
    """Seconds that processors have worked for them; it may fall when programs end."""
    memory_bytes: int
    received_bytes: int | None = None
    """Over the worker's own network since its boot; None where it has none of its own."""
    sent_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Command:
    """A program to start in a session of its own."""

    argv: tuple[str, ...]
    environment: Mapping[str, str]
    """All of it but what the host adds: nothing is inherited."""
    directory: str
    """Where it starts, as the worker sees it; made when it is a home that is not there yet."""
    streams: tuple[int, int, int]
    """Descriptors for stdin, stdout and stderr; they stay the caller's to close."""
    terminal: str | None = None
    """The device, as the worker sees it, that becomes the session's controlling terminal."""
