"""Who may see the dashboard: whoever opened a link that works once."""

import hmac
import secrets
from collections.abc import Callable
from dataclasses import dataclass, field

SECRET_BYTES = 32
MOST_SESSIONS = 100
"""Browsers at a time; the one that came first must open a link again."""


@dataclass(slots=True)
class Session:
    """One browser that has opened a link."""

    token: str
    csrf: str = field(default_factory=lambda: secrets.token_urlsafe(SECRET_BYTES))
    """Every form of its pages has it; a page of somebody else does not know it."""
    messages: list[str] = field(default_factory=list)
    """What its next page says."""

    def take_messages(self) -> list[str]:
        """What its next page says, once."""
        taken, self.messages = self.messages, []
        return taken


@dataclass(slots=True)
class Sessions:
    """The code of the next link, and the browsers that have opened one."""

    on_new_code: Callable[[str], None] = lambda _code: None
    """Called with the code that takes the place of one that was used."""
    code: str = field(default_factory=lambda: secrets.token_urlsafe(SECRET_BYTES))
    _open: dict[str, Session] = field(default_factory=dict)

    def exchange(self, code: str) -> Session | None:
        """A new session for the code of the link; None for any other, or one that was used."""
        if not _is_same(code, self.code):
            return None
        self.code = secrets.token_urlsafe(SECRET_BYTES)
        session = Session(secrets.token_urlsafe(SECRET_BYTES))
        self._open[session.token] = session
        if len(self._open) > MOST_SESSIONS:
            self._open.pop(next(iter(self._open)))
        self.on_new_code(self.code)
        return session

    def find(self, token: str) -> Session | None:
        """The session with that token."""
        found = [each for each in self._open.values() if _is_same(token, each.token)]
        return found[0] if found else None


def has_csrf(session: Session, given: str) -> bool:
    """Whether a form was on a page of this session."""
    return _is_same(given, session.csrf)


def _is_same(given: str, secret: str) -> bool:
    return hmac.compare_digest(given.encode(), secret.encode())
