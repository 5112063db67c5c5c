"""An answer of the protocol that is not a result."""

from __future__ import annotations


class ProtocolError(Exception):
    """The status and the text of an answer that refuses a request, and when to try again."""

    def __init__(
        self, status: int, message: str, *, retry_after_s: int | None = None, closes: bool = False
    ) -> None:
        """Refuse with a status of HTTP; `closes` ends the connection after the answer."""
        super().__init__(message)
        self.status = status
        self.message = message
        self.retry_after_s = retry_after_s
        self.closes = closes


def bad_request(message: str) -> ProtocolError:
    """The error of a request that no server can answer."""
    return ProtocolError(400, message)


def short_text(value: object) -> str:
    """A value of the client's as it may stand in an answer and in a line of the log."""
    text = ascii(value)
    return text if len(text) <= 80 else f"{text[:80]}…"
