"""The guest attributes of one worker: what its programs told the control plane."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping

from localsim.workers.spec import WorkerAttribute


class GuestAttributes:
    """Entries by namespace and key; every change is told before it shows."""

    def __init__(
        self,
        entries: Iterable[WorkerAttribute],
        *,
        tell: Callable[[str, str, str | None], Awaitable[None]],
        announce: Callable[[], None],
    ) -> None:
        """`tell` is given namespace, key and value (None: deleted); then it is announced."""
        self._values = {(each.namespace, each.key): each.value for each in entries}
        self._tell = tell
        self._announce = announce
        self._turn = asyncio.Lock()

    @property
    def namespaces(self) -> Mapping[str, Mapping[str, str]]:
        """Every value by namespace, then by key."""
        names = dict.fromkeys(namespace for namespace, _ in self._values)
        return {
            name: {key: value for (space, key), value in self._values.items() if space == name}
            for name in names
        }

    async def put(self, namespace: str, key: str, value: str) -> None:
        """Write an entry; returns when the control plane has it. Raises NotToldError."""
        async with self._turn:  # what shows last is what was told last
            await self._tell(namespace, key, value)
            self._values[namespace, key] = value
        self._announce()

    async def delete(self, namespace: str, key: str) -> None:
        """Remove an entry; raises KeyError, NotToldError."""
        async with self._turn:
            if (namespace, key) not in self._values:
                raise KeyError(f"{namespace}/{key}")
            await self._tell(namespace, key, None)
            del self._values[namespace, key]
        self._announce()
