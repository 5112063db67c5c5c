"""What pages read: the clients of the command, and what is watched while somebody looks."""

from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from typing import TypeVar

from tpuctl.cli.shell.runtime import Runtime
from tpuctl.operations.jobs.events import Warned
from tpuctl.operations.metrics.overview import Overviews
from tpuctl.operations.metrics.watch_pool import WatchPool

T = TypeVar("T")


@dataclass(slots=True)
class Board:
    """The sources of all pages."""

    runtime: Runtime
    overviews: Overviews = field(init=False)
    watches: WatchPool = field(init=False)

    def __post_init__(self) -> None:
        self.overviews = Overviews(self.runtime)
        self.watches = WatchPool(self.runtime, self.runtime.access)

    @property
    def typed(self) -> Callable[[str], str]:
        """Adds the context of this command to the commands in a text."""
        return self.runtime.output.typed


def result_of(reading: Generator[Warned, None, T], missing: list[str]) -> T:
    """The result of an operation; what it warns of goes to `missing`."""
    while True:
        try:
            missing.append(next(reading).text)
        except StopIteration as end:
            result: T = end.value
            return result
