"""Notes in the ledger which slices there are, for whoever asks later what they cost."""

import asyncio
from contextlib import suppress
from pathlib import Path

from tpuctl.errors import TpuctlError
from tpuctl.jobs.interfaces import Backends, Clocks
from tpuctl.ledger.slice_notes import note_survey

NOTE_EVERY_S = 240.0
"""The end of a slice that nobody asked for is known to so many seconds."""


async def note_costs(backends: Backends, home: Path, clocks: Clocks) -> None:
    """Look every four minutes, for as long as the task lives; what fails is tried the next time."""
    look = backends.look
    while look is not None:
        await clocks.sleep(NOTE_EVERY_S)
        with suppress(TpuctlError):
            await asyncio.to_thread(note_survey, backends.store, home, look, clocks.now)
