"""What a job file says about its rehearsal."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class RehearseSpec:
    """The field `rehearse` of a job file, checked and completed."""

    envs: Mapping[str, str] = field(default_factory=dict)
    """Values that replace those of the job's `envs`, such as fewer steps."""
    accelerators: str | None = None
    """The type of the simulated slices; None: that of the job."""
    data: Mapping[str, str] = field(default_factory=dict)
    """`gs://` URL -> absolute path of a file or directory that is pushed there before every run."""
    tolerance: Mapping[str, float] = field(default_factory=dict)
    """Metric -> the largest difference, relative to the reference, that counts as equal.

    A metric that is not listed must have the same text as in the reference.
    """
    metrics: tuple[str, ...] = ()
    """The metrics that are compared; none: all that two undisturbed runs agree on."""
    examples: str | None = None
    """A regular expression whose group `examples` is what a line says about the examples it read,
    and whose group `step` is the step that read them."""
