"""The section `predict` of a job file: files of a bucket become files of predictions."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PredictSpec:
    """What is predicted by which program, and where the outputs go."""

    input: str
    """A gs:// URL: a directory, an object, or a pattern such as `gs://BUCKET/data/*.csv`."""
    output: str
    """A gs:// URL of its own: every object below it is this batch job's."""
    program: str | None = None
    """The module with `load` and `predict`; None with `command`."""
    command: str | None = None
    """A line for bash that reads the file $INPUT and writes the file $OUTPUT."""
    format: str | None = None
    """Of the outputs; None: that of the inputs."""
    unit_rows: int = 8192
    batch: int = 1024
    """The most rows that `predict` gets at once."""
    checkpoint: str | None = None
    """The directory that `load` gets; None: it gets None."""
    step: int | None = None
    """The step of that directory; the submission writes down the newest where none is given."""
    manifest: str = ""
    """The crc32c of that step's COMMIT, as it was at submission."""
    max_rejects: int | None = None
    """With more rejected rows the job fails; None: only where all of a worker's first unit are."""
