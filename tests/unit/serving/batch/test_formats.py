"""Formats: what is written reads back the same, its bytes follow from its columns alone."""

import io
import json

import numpy as np
import pytest

from tpuctl.errors import JobFailedError, UsageError
from tpuctl.serving.batch.formats import input_reader
from tpuctl.serving.batch.formats.csv_files import CsvFiles
from tpuctl.serving.batch.formats.input_reader import InputObject, InputReader
from tpuctl.serving.batch.formats.json_lines import JsonLines
from tpuctl.serving.batch.formats.known_formats import open_format
from tpuctl.serving.batch.formats.npy_files import NpzFiles
from unit.checkpoint.memory_store import MemoryBucket, MemoryStore
from unit.serving.batch.batch_worlds import npz
from unit.serving.batch.test_unit_plan import reader_of

BATCH = {
    "row": np.arange(4),
    "label": np.array(["a", 'q"\n,', "é", ""]),
    "score": np.array([0.1, np.nan, 1e-30, 7], np.float32),
    "pair": np.arange(8.0).reshape(4, 2),
    "ok": np.array([True, False, True, True]),
}


@pytest.mark.parametrize("name", ["npz", "csv", "jsonl", "parquet"])
def test_the_bytes_follow_from_the_columns(name):
    if name == "parquet":
        pytest.importorskip("pyarrow")
    kind = open_format(name)
    data = kind.encode(BATCH)
    assert kind.encode({key: array.copy() for key, array in BATCH.items()}) == data
    assert kind.row_numbers(data).tolist() == [0, 1, 2, 3]
    assert kind.row_numbers(kind.encode({"row": np.empty(0, np.int64)})).tolist() == []


@pytest.mark.parametrize("name", ["npz", "csv", "jsonl", "parquet"])
def test_what_is_written_reads_back(name):
    if name == "parquet":
        pytest.importorskip("pyarrow")
    kind = open_format(name)
    batch = {key: array for key, array in BATCH.items() if key != "row"}
    source = reader_of(f"a.{name}", kind.encode(batch))
    survey = kind.survey(source, 100)
    (span,) = survey.ranges
    found = kind.read(source, span, survey.columns)
    assert found.rejects == ()
    assert found.numbers.tolist() == [0, 1, 2, 3]
    assert found.batch["label"].tolist() == BATCH["label"].tolist()
    scores = found.batch["score"].astype(np.float32)
    np.testing.assert_array_equal(scores, BATCH["score"])
    flat = [found.batch["pair_0"], found.batch["pair_1"]] if name == "csv" else None
    pair = np.stack(flat, axis=1) if flat else found.batch["pair"]
    np.testing.assert_array_equal(pair, BATCH["pair"])


def test_npz_reads_rows_of_any_layout():
    array = np.asfortranarray(np.arange(24.0).reshape(8, 3))
    source = reader_of("a.npz", npz(x=array, y=np.arange(8)))
    survey = NpzFiles().survey(source, 3)
    parts = [NpzFiles().read(source, span, survey.columns) for span in survey.ranges]
    np.testing.assert_array_equal(np.concatenate([part.batch["x"] for part in parts]), array)


@pytest.mark.parametrize(
    "array",
    [
        np.empty((0, 3)),
        np.arange(3, dtype=">i2"),
        np.array(["é", "ab"]),
        np.ones((2, 0, 4), np.float16),
        np.array([True]),
        np.array([1 + 2j]),
        np.array([b"x"]),
        np.array(["2026-01-01"], "M8[D]"),
    ],
)
def test_headers_are_those_that_numpy_writes(array):
    source = reader_of("a.npz", npz(x=array))
    survey = NpzFiles().survey(source, 100)
    assert survey.columns[0][1:] == (array.dtype.str, array.shape[1:])
    parts = [NpzFiles().read(source, span, survey.columns).batch["x"] for span in survey.ranges]
    np.testing.assert_array_equal(np.concatenate([*parts, array[:0]]), array)


class CountingStore(MemoryStore):
    """A bucket that knows how many bytes were read of it."""

    read_bytes = 0

    def get_range(self, *args, **options):
        data = super().get_range(*args, **options)
        self.read_bytes += len(data)
        return data


@pytest.mark.parametrize("name", ["npy", "npz"])
def test_of_a_large_object_only_the_rows_of_a_unit_are_read(name, monkeypatch):
    monkeypatch.setattr(input_reader, "WHOLE_BYTES", 1000)
    monkeypatch.setattr(input_reader, "BUFFER_BYTES", 512)
    array, file = np.arange(80_000.0).reshape(10_000, 8), io.BytesIO()
    np.save(file, array)
    store = CountingStore(MemoryBucket())
    entry = store.put_if_absent(f"a.{name}", file.getvalue() if name == "npy" else npz(x=array))
    source = InputReader(store, InputObject(entry.key, entry.generation, entry.size_bytes, ""))
    kind = open_format(name)
    survey = kind.survey(source, 100)
    store.read_bytes = 0
    np.testing.assert_array_equal(
        kind.read(source, survey.ranges[70], survey.columns).batch["x"], array[7000:7100]
    )
    assert store.read_bytes < 100 * 8 * 8 + 5000


@pytest.mark.parametrize(
    ("damage", "text"),
    [
        (lambda data: data.replace(b"PK\x03\x04", b"PK\x03\x05"), "not where the archive's dir"),
        (lambda data: data.replace(b"(4, 3)", b"(9, 3)"), "bytes are missing"),
    ],
)
def test_a_damaged_archive_is_refused(damage, text):
    source = reader_of("a.npz", damage(npz(x=np.zeros((4, 3)))))
    with pytest.raises(UsageError, match=text):
        survey = NpzFiles().survey(source, 100)
        NpzFiles().read(source, survey.ranges[0], survey.columns)


def test_structured_values_are_refused():
    array = np.zeros(2, [("a", "f4"), ("b", "i4")])
    with pytest.raises(UsageError, match="its header is"):
        NpzFiles().survey(reader_of("a.npz", npz(x=array)), 100)


def test_bad_records_of_csv_are_rejected():
    text = b"n,t\n1,a\nx,b\n2\n\n3,\xff\n,c\n4,d\n" + b"5,e\n" * 40
    source = reader_of("a.csv", text)
    survey = CsvFiles().survey(source, 100)
    assert [column.kind for column in survey.columns] == ["number", "text"]
    found = CsvFiles().read(source, survey.ranges[0], survey.columns)
    assert [tuple(each) for each in found.rejects] == [
        (1, "n: 'x' is not a number"),
        (2, "it has 1 fields, not 2"),
        (4, "t: it is not UTF-8"),
    ]
    assert found.numbers.tolist()[:3] == [0, 5, 6]
    assert np.isnan(found.batch["n"][1])


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b'n,t\n1,a"b\n2,c"d\n3,e\n', "by their line ends, and"),
        (b"n,n\n1,2\n", "no header with a name of its own"),
        (b"", "no header"),
        (b"n,t\n1,a\r2,b\n", "by their line ends, and"),
    ],
)
def test_csv_whose_records_are_not_clear_is_refused(data, text):
    source = reader_of("a.csv", data)
    with pytest.raises(UsageError, match=text):
        survey = CsvFiles().survey(source, 100)
        CsvFiles().read(source, survey.ranges[0], survey.columns)


def test_bad_lines_of_json_are_rejected():
    lines = ['{"x": [1, 2], "t": "a"}', "{", "[]", '{"x": [1], "t": "a"}', '{"t": "a"}', "",
             '{"x": [1, "z"], "t": "a"}', '{"x": [3, 4], "t": "b", "more": null}']  # fmt: skip
    source = reader_of("a.jsonl", "\n".join(lines).encode())
    survey = JsonLines().survey(source, 100)
    found = JsonLines().read(source, survey.ranges[0], survey.columns)
    assert [each.row for each in found.rejects] == [1, 2, 3, 4, 6]
    assert found.numbers.tolist() == [0, 7]
    assert found.batch["x"].tolist() == [[1, 2], [3, 4]]


def test_json_has_no_nan():
    lines = JsonLines().encode({"row": np.arange(2), "y": np.array([[np.nan, 1], [np.inf, 2]])})
    assert [json.loads(line)["y"] for line in lines.splitlines()] == [[None, 1], [None, 2]]


@pytest.mark.parametrize("name", ["npz", "csv", "jsonl"])
def test_an_output_that_no_file_can_hold_is_refused(name):
    with pytest.raises(JobFailedError, match="cannot"):
        open_format(name).encode({"y": np.array([{}, {}])})


def test_parquet_units_are_whole_row_groups():
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    sink = pa.BufferOutputStream()
    columns = {"x": [1, None, *range(2, 20)], "s": ["a"] * 20, "l": [[1.0, 2.0]] * 20}
    pq.write_table(pa.table(columns), sink, row_group_size=4)
    source = reader_of("a.parquet", sink.getvalue().to_pybytes())
    kind = open_format("parquet")
    survey = kind.survey(source, 9)
    assert [(span.first_row, span.rows) for span in survey.ranges] == [(0, 8), (8, 8), (16, 4)]
    parts = [kind.read(source, span, survey.columns) for span in survey.ranges]
    assert [tuple(each) for each in parts[0].rejects] == [(1, "x: it is null")]
    assert [int(row) for part in parts for row in part.numbers] == [0, *range(2, 20)]
    assert parts[1].batch["l"].shape == (8, 2)
    with pytest.raises(UsageError, match="is not a Parquet file"):
        kind.survey(reader_of("b.parquet", b"PAR1 nonsense"), 9)
