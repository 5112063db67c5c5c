"""Reports what a program's simulated chips do, for libtpu's metrics."""

from collections.abc import Sequence

from localsim.core.chip.chip import Chip
from localsim.core.chip.counters import Counters
from localsim.guest.localsim_chips import holding
from tpuctl import catalog


class Activity:
    """Use of the chips of one program since the last call; modelled, as all their figures are.

    Memory is the most that was held or needed at once. A chip is busy while its matrix units are:
    their share of the time that the operations would have cost the chip. The bandwidth of its HBM
    is used for as many bytes as they would have moved in that time.
    """

    def __init__(self) -> None:
        self._chips: Sequence[Chip] = ()
        self._seen: list[Counters] = []

    @property
    def chips(self) -> Sequence[Chip]:
        """The chips of the program."""
        return self._chips

    @chips.setter
    def chips(self, chips: Sequence[Chip]) -> None:
        self._seen, self._chips = [Counters() for _ in chips], chips

    def __call__(self) -> holding.Usage:
        """Return peak bytes, executions and the busy share (0 to 1) since the last call."""
        chips = self._chips
        now = [chip.counters for chip in chips]
        done = [after - before for after, before in zip(now, self._seen, strict=True)]
        self._seen = now
        whole = sum(done, Counters())
        busy = min(1.0, whole.mxu_busy_s / whole.modelled_s) if whole.modelled_s > 0 else 0.0
        told = [
            {**chip.executions.report(), "hbm_bandwidth": bandwidth_share(chip.generation, each)}
            for chip, each in zip(chips, done, strict=True)
        ]
        return holding.Usage([chip.hbm.take_peak_bytes() for chip in chips], max(0.0, busy), told)


def bandwidth_share(generation: str, done: Counters) -> float:
    """Return which share (0 to 1) of the bandwidth of HBM was used in the modelled time."""
    if done.modelled_s <= 0:
        return 0.0
    could_bytes = done.modelled_s * catalog.generation(generation).chip.hbm_bytes_per_s
    return min(1.0, done.hbm_bytes / could_bytes)


_OF_THIS_PROGRAM = Activity()


def hold() -> Activity:
    """Hold the worker's chips until the program ends; its chips are to be named in what comes back.

    Nothing happens elsewhere than on a worker. Raises localsim_chips.lock.NotLoadedError.
    """
    holding.hold(_OF_THIS_PROGRAM)
    return _OF_THIS_PROGRAM
