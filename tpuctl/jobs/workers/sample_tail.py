"""Samples of a worker that are not in the bucket yet, kept here in case the worker goes."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from tpuctl import packed_samples
from tpuctl.errors import PreconditionError
from tpuctl.jobs.record import decoding
from tpuctl.store import Store

MOST_SAMPLES = 720
"""Two hours of them."""
MOST_VALUES = 512
"""The most values of one sample: a worker with eight chips reports about 100."""


@dataclass(frozen=True, slots=True)
class AgentSample:
    """What an agent measured on its worker at one moment, as docs/agent-protocol.md has it."""

    time_s: float
    values: Mapping[str, float]
    safe_s: float = 0.0
    """The time of the newest sample that is in the bucket."""


@dataclass(slots=True)
class SampleTail:
    """Samples in the order of time, as they came over the worker's stream."""

    kept: list[AgentSample] = field(default_factory=list)
    newest_s: float = 0.0

    def add(self, told: object) -> AgentSample | None:
        """Keep a sample of an agent's status and return it; None when there is nothing new.

        Raises MalformedError.
        """
        if told is None:
            return None
        sample = decoding.decode_dataclass(AgentSample, told)
        if len(sample.values) > MOST_VALUES:
            raise decoding.MalformedError(f"a sample has {len(sample.values)} values")
        self.kept = [each for each in self.kept if each.time_s > sample.safe_s][-MOST_SAMPLES:]
        if sample.time_s <= self.newest_s:
            return None
        self.newest_s = sample.time_s
        self.kept.append(sample)
        return sample

    def save(self, store: Store, prefix: str) -> None:
        """Put into the bucket what is left; a sample that is there twice is read once."""
        if not self.kept:
            return
        rows = [{"time_s": each.time_s, "values": each.values} for each in self.kept]
        key = f"{prefix}/{round(1000 * self.kept[0].time_s):015d}"
        with suppress(PreconditionError):  # the agent has sent them
            store.put_if_absent(key, packed_samples.pack(rows))
        self.kept = []
