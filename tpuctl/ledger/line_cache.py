"""Objects of a ledger that were read before, by their generation, in files of this machine."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tpuctl.durable_directories import make_private

_KEY_DIGITS = 40


@dataclass(frozen=True, slots=True)
class LineCache:
    """Keeps one generation of each object. What is lost, or cannot be kept, is read again."""

    directory: Path

    @classmethod
    def of(cls, home: Path, store_url: str) -> LineCache:
        """The cache of a store, below TPUCTL_HOME."""
        name = hashlib.sha256(store_url.encode()).hexdigest()[:16]
        return cls(home / "cache" / "ledger" / name)

    def text_of(self, key: str, generation: int) -> str | None:
        """The text of that generation of an object, if it was kept."""
        try:
            return (self.directory / f"{_digest(key)}.{generation}").read_text("utf-8")
        except (OSError, ValueError):
            return None

    def newest(self, key: str) -> tuple[int, str] | None:
        """The generation of an object that was kept, and its text."""
        for path in self._kept(key):
            number = path.suffix[1:]
            text = self.text_of(key, int(number)) if number.isdecimal() else None
            if text is not None:
                return int(number), text
        return None

    def keep(self, key: str, generation: int, text: str) -> None:
        """Keep the text of a generation, and forget those before."""
        path = self.directory / f"{_digest(key)}.{generation}"
        keep_text(path, text)
        with suppress(OSError):
            for other in self._kept(key):
                if other != path:
                    other.unlink(missing_ok=True)

    def _kept(self, key: str) -> Iterator[Path]:
        with suppress(OSError):
            yield from sorted(self.directory.glob(f"{_digest(key)}.*"), reverse=True)


def keep_text(path: Path, text: str) -> None:
    """Write a file that may be lost, for its owner alone; what cannot be written is not kept."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    with suppress(OSError):
        make_private(path.parent)
        temporary.write_text(text, "utf-8")
        temporary.replace(path)


def _digest(key: str) -> str:
    """The name of a file for an object: the name of an object is never a path."""
    return hashlib.sha256(key.encode()).hexdigest()[:_KEY_DIGITS]
