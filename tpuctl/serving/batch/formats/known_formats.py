"""Formats by the ending of an object's name."""

from __future__ import annotations

from tpuctl.errors import UsageError
from tpuctl.serving.batch.formats.file_format import FileFormat

FORMAT_NAMES = ("npz", "npy", "csv", "jsonl", "parquet")
OUTPUT_NAMES = ("npz", "csv", "jsonl", "parquet")


def format_name(key: str) -> str:
    """The format of an object by its name; raises UsageError when it is none of ours."""
    ending = key.rpartition("/")[2].rpartition(".")[2].lower()
    if ending not in FORMAT_NAMES:
        raise UsageError(
            f"{key} is not an input: its name ends with none of {', '.join(FORMAT_NAMES)}",
            hint="name the inputs by a pattern, such as gs://BUCKET/data/*.csv",
        )
    return ending


def output_name(input_format: str) -> str:
    """The format of the outputs where none is given."""
    return "npz" if input_format == "npy" else input_format


def open_format(name: str) -> FileFormat:
    """The format of that name; raises UsageError when what it needs is not installed."""
    # Each is imported when it is wanted: a worker compiles what it imports.
    if name in ("npz", "npy"):
        from tpuctl.serving.batch.formats.npy_files import NpyFiles, NpzFiles

        return NpzFiles() if name == "npz" else NpyFiles()
    if name == "csv":
        from tpuctl.serving.batch.formats.csv_files import CsvFiles

        return CsvFiles()
    if name == "jsonl":
        from tpuctl.serving.batch.formats.json_lines import JsonLines

        return JsonLines()
    try:
        from tpuctl.serving.batch.formats.parquet_files import ParquetFiles
    except ImportError as error:
        raise UsageError(
            f"Parquet files need pyarrow, which cannot be imported: {error}",
            hint="pip install pyarrow, on the workers by `setup` of the job file",
        ) from error
    return ParquetFiles()
