"""Secrets are replaced by value in everything that the agent writes. Python 3.8."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

LEAST_CHARACTERS = 4
"""What is shorter would hide half of the log and little of a secret."""
MARK = "***"


def encode_value(text: str) -> bytes:
    """Return the bytes of an environment variable of this value, which need not be UTF-8."""
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass")


class Redaction:
    """Replaces known values, and each line of values that have several, by `***`."""

    def __init__(self) -> None:
        self.words: list[bytes] = []
        self.longest_bytes = 0

    def add(self, values: Iterable[str]) -> None:
        """Replace these values too; lines under LEAST_CHARACTERS are left."""
        lines = {line.strip() for value in values for line in value.splitlines()}
        words = {encode_value(line) for line in lines if len(line) >= LEAST_CHARACTERS}
        self.words = sorted({*self.words, *words}, key=len, reverse=True)
        self.longest_bytes = max(map(len, self.words), default=0)

    def redact(self, data: bytes) -> bytes:
        """Return the bytes without secrets; the longest first, for one may hold another."""
        for word in self.words:
            data = data.replace(word, MARK.encode())
        return data

    def redact_json(self, value: Any) -> Any:
        """Return a JSON value with every text in it, keys too, redacted."""
        if isinstance(value, str):
            return self.redact(value.encode("utf-8", "surrogatepass")).decode("utf-8", "replace")
        if isinstance(value, dict):
            return {self.redact_json(key): self.redact_json(each) for key, each in value.items()}
        return [self.redact_json(each) for each in value] if isinstance(value, list) else value
