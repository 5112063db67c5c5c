"""An answer of the protocol that is not a result."""

from __future__ import annotations


class ProtocolError(Exception):
    """The status and the text of an answer that refuses a request, and when to try again."""

    def __init__(
        self, status: int, message: str, *, retry_after_s: int | None = None, closes: bool = False,
        allow: str = "",
    ) -> None:  # fmt: skip
        """Refuse with a status of HTTP; `closes` ends the connection after the answer.

        `allow` has the methods that the path takes, where the status is 405.
        """
        super().__init__(message)
        self.status = status
        self.message = message
        self.retry_after_s = retry_after_s
        self.closes = closes
        self.allow = allow


def wrong_method(method: str, wanted: str) -> ProtocolError:
    """The error of a path that takes another method."""
    text = f"the method of this path is {wanted}, not {method}"
    return ProtocolError(405, text, allow="GET, HEAD" if wanted == "GET" else wanted)


def bad_request(message: str) -> ProtocolError:
    """The error of a request that no server can answer."""
    return ProtocolError(400, message)


def short_text(value: object) -> str:
    """A value of the client's as it may stand in an answer and in a line of the log."""
    text = ascii(value)
    return text if len(text) <= 80 else f"{text[:80]}…"
