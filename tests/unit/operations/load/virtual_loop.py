"""An event loop whose time passes only while everything waits, and then at once."""

import asyncio
import selectors


class VirtualSelector(selectors.SelectSelector):
    """Instead of waiting, it moves the time."""

    now_s = 0.0

    def select(self, timeout=None):
        assert timeout is not None, "nothing is left to wait for"
        self.now_s += timeout
        return []


class VirtualLoop(asyncio.SelectorEventLoop):
    """A loop with a time of its own; no file and no thread is waited for."""

    def __init__(self):
        self._virtual = VirtualSelector()
        super().__init__(self._virtual)

    def time(self):
        return self._virtual.now_s


def run_virtually(main):
    """Run a coroutine that is given the clock."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        loop = runner.get_loop()
        return runner.run(main(loop.time))
