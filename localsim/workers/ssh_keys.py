"""The SSH keys that a worker's metadata names, in force at once or only after a while."""

import math
from collections.abc import Callable


class SshKeys:
    """The `ssh-keys` of one worker, every change of which takes `delay_s` simulated seconds."""

    def __init__(self, text: str, *, delay_s: float, now: Callable[[], float]) -> None:
        """`text` has lines of `user:ssh-ed25519 AAAA… comment`."""
        self._delay_s = delay_s
        self._now = now
        self._changes = [(-math.inf, "")]
        self.change(text)

    def change(self, text: str) -> None:
        """Take other keys, in force when the delay is over."""
        in_force = self._in_force()
        self._changes = [*self._changes[in_force:], (self._now() + self._delay_s, text)]

    def of(self, user: str) -> frozenset[str]:
        """Return the public keys (`ssh-ed25519 AAAA…`) that let this user in now."""
        _, text = self._changes[self._in_force()]
        lines = (line.partition(":") for line in text.splitlines())
        keys = (key.split() for name, _, key in lines if name.strip() == user)
        return frozenset(" ".join(words[:2]) for words in keys if len(words) >= 2)

    def _in_force(self) -> int:
        now_s = self._now()
        return max(index for index, (from_s, _) in enumerate(self._changes) if from_s <= now_s)
