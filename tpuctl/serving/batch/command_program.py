"""A command that reads the file $INPUT and writes the file $OUTPUT, in place of two functions."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tpuctl.errors import JobFailedError, TpuctlError
from tpuctl.serving.batch.formats.file_format import FileFormat
from tpuctl.serving.batch.formats.input_reader import InputObject, InputReader
from tpuctl.serving.batch.formats.known_formats import open_format
from tpuctl.serving.datatypes import Batch
from tpuctl.store import crc32c, open_store

_ALL = 2**62
LAST_LINES = 2


@dataclass(frozen=True)
class CommandProgram:
    """Runs a command for each unit, in a directory of its own; its files have one format each."""

    command: str
    input_format: str
    output_format: str
    environ: Mapping[str, str]
    checkpoint: str = ""

    def predict_batch(self, batch: Batch) -> Batch:
        """The columns of the file that the command writes: as many rows as it was given.

        Raises JobFailedError when it fails, writes no file, or another number of rows.
        """
        with tempfile.TemporaryDirectory(prefix="tpuctl-unit-") as directory:
            source = Path(directory) / f"input.{_written(self.input_format)}"
            target = Path(directory) / f"output.{self.output_format}"
            source.write_bytes(open_format(self.input_format).encode(batch))
            self._run(source, target)
            if not target.is_file():
                raise JobFailedError(f"the command writes no file $OUTPUT: {self.command[:80]}")
            found = _read_file(open_format(self.output_format), target)
        rows = len(next(iter(batch.values())))
        wrong = [name for name, array in found.items() if len(array) != rows]
        if wrong or not found:
            given = len(found[wrong[0]]) if wrong else 0
            raise JobFailedError(f"the command writes {given} rows for {rows}")
        return found

    def _run(self, source: Path, target: Path) -> None:
        files = {"INPUT": str(source), "OUTPUT": str(target)}
        ended = subprocess.run(
            ["/bin/bash", "-c", self.command],
            env={**self.environ, **files, "CHECKPOINT": self.checkpoint},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
        )
        if ended.returncode:
            lines = ended.stderr.decode("utf-8", "replace").strip().splitlines()[-LAST_LINES:]
            text = f"the command ends with status {ended.returncode}: {' '.join(lines)[:300]}"
            raise JobFailedError(text.removesuffix(": "))


def _written(input_format: str) -> str:
    return "npz" if input_format == "npy" else input_format


def _read_file(kind: FileFormat, path: Path) -> Batch:
    """All columns of a file; raises JobFailedError when it is not of its format."""
    data = path.read_bytes()
    store = open_store(os.fspath(path.parent))
    entry = InputObject(path.name, path.stat().st_mtime_ns, len(data), crc32c(data))
    source = InputReader(store, entry)
    try:
        survey = kind.survey(source, _ALL)
        parts = [kind.read(source, span, survey.columns) for span in survey.ranges]
    except TpuctlError as error:
        raise JobFailedError(f"the command's output cannot be read: {error}") from error
    if len(parts) != 1 or parts[0].rejects:
        why = parts[0].rejects[0].error if parts and parts[0].rejects else "it has no rows"
        raise JobFailedError(f"the command's output cannot be read: {why}")
    return parts[0].batch
