"""What a batch job is to do, as its workers find it in one variable of their environment."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields

from tpuctl.errors import UsageError

SETTINGS = "TPUCTL_PREDICT"
"""The variable with the settings as JSON; the job file's section `predict` becomes it."""
PROGRAM_VERSION = "TPUCTL_PROGRAM_VERSION"
SCHEMA = 1
_NOT_IN_VERSION = ("input", "output", "max_rejects")


@dataclass(frozen=True)
class BatchSettings:
    """The section `predict` of a job file, completed; and what else the outputs depend on."""

    input: str
    """A directory or a pattern: `gs://bucket/data/*.csv`, or a path."""
    output: str
    """A directory: every object below it is this batch job's."""
    program: str = ""
    """The module of `load` and `predict`; "" with `command`."""
    command: str = ""
    """A line for bash that reads the file $INPUT and writes the file $OUTPUT."""
    output_format: str = ""
    """Of the outputs; "": that of the inputs."""
    unit_rows: int = 8192
    batch: int = 1024
    """The most rows that `predict` gets at once."""
    checkpoint: str = ""
    step: int | None = None
    manifest: str = ""
    """The crc32c of the step's COMMIT: another step of the same number is another version."""
    environment: str = ""
    """The digest of the job's variables, image and setup."""
    max_rejects: int | None = None
    """With more rejected rows the job fails; None: only where all of the first unit are."""

    def to_json(self) -> str:
        """The text of the variable."""
        return json.dumps(asdict(self), sort_keys=True)

    def version(self, program_version: str) -> str:
        """The digest of everything that the outputs depend on, beside their inputs."""
        known = {name: value for name, value in asdict(self).items() if name not in _NOT_IN_VERSION}
        document = {"schema": SCHEMA, "program_version": program_version, **known}
        return hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()


def read_settings(environ: Mapping[str, str]) -> BatchSettings:
    """The settings of the environment; raises UsageError without good ones."""
    text = environ.get(SETTINGS, "")
    if not text:
        raise UsageError(
            f"{SETTINGS} is not set", hint="a job file with the section `predict` sets it"
        )
    try:
        given = json.loads(text)
        known = {each.name for each in fields(BatchSettings)}
        return BatchSettings(**{name: value for name, value in given.items() if name in known})
    except (ValueError, TypeError, AttributeError) as error:
        raise UsageError(f"{SETTINGS} cannot be read: {error}") from error
