"""Reports what a program's simulated chips do, for libtpu's metrics."""

from collections.abc import Sequence

from localsim.core.chip.chip import Chip
from localsim.core.chip.counters import Counters
from localsim.guest.localsim_chips import holding


class Activity:
    """Use of the chips of one program since the last call; modelled, as all their figures are.

    Memory is the most that was held or needed at once. A chip is busy while its matrix units are:
    their share of the time that the operations would have cost the chip.
    """

    def __init__(self) -> None:
        self.chips: Sequence[Chip] = ()
        self._seen = Counters()

    def __call__(self) -> holding.Usage:
        """Return peak bytes of each chip and the busy share (0 to 1) since the last call."""
        now = sum((chip.counters for chip in self.chips), Counters())
        done, self._seen = now - self._seen, now
        busy = min(1.0, done.mxu_busy_s / done.modelled_s) if done.modelled_s > 0 else 0.0
        return holding.Usage([chip.hbm.take_peak_bytes() for chip in self.chips], max(0.0, busy))


_OF_THIS_PROGRAM = Activity()


def hold() -> Activity:
    """Hold the worker's chips until the program ends; its chips are to be named in what comes back.

    Nothing happens elsewhere than on a worker. Raises localsim_chips.lock.NotLoadedError.
    """
    holding.hold(_OF_THIS_PROGRAM)
    return _OF_THIS_PROGRAM
