"""Plans: units cover every row once, names of outputs are injective, the bytes tell all."""

import io

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tpuctl.errors import DamagedStateError, UsageError
from tpuctl.serving.batch.batch_settings import BatchSettings, read_settings
from tpuctl.serving.batch.formats.csv_files import CsvFiles
from tpuctl.serving.batch.formats.file_format import TableColumn, UnitRange, row_ranges
from tpuctl.serving.batch.formats.input_reader import InputObject, InputReader
from tpuctl.serving.batch.formats.json_lines import JsonLines
from tpuctl.serving.batch.input_objects import list_inputs, refuse_overlap, split_pattern
from tpuctl.serving.batch.unit_plan import PlannedUnit, UnitPlan, decode_plan, encode_plan
from unit.checkpoint.memory_store import MemoryBucket, MemoryStore


@given(st.integers(0, 500), st.integers(1, 60))
def test_ranges_cover_every_row_once(rows, unit_rows):
    ranges = row_ranges(rows, unit_rows)
    assert [row for span in ranges for row in range(span.start, span.end)] == list(range(rows))
    assert all(0 < span.rows == span.end - span.start <= unit_rows for span in ranges)


def reader_of(name, data):
    store = MemoryStore(MemoryBucket())
    entry = store.put_if_absent(name, data)
    return InputReader(store, InputObject(name, entry.generation, entry.size_bytes, entry.crc32c))


CELLS = st.text(st.sampled_from('ab",\n\r é'), max_size=6)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 9), CELLS), min_size=1, max_size=60),
    st.integers(1, 9),
    st.integers(3, 40),
)
def test_csv_units_cover_every_record_once(monkeypatch_bytes, rows, unit_rows, block):
    import csv

    file = io.StringIO(newline="")
    writer = csv.writer(file, lineterminator="\n", quoting=csv.QUOTE_ALL)
    writer.writerow(["n", "text"])
    writer.writerows(rows)
    monkeypatch_bytes(block)
    source = reader_of("a.csv", file.getvalue().encode())
    survey = CsvFiles().survey(source, unit_rows)
    columns = (TableColumn("n", "number"), TableColumn("text", "text"))
    read = [CsvFiles().read(source, span, columns) for span in survey.ranges]
    assert [span.rows for span in survey.ranges] == [unit.count for unit in read]
    numbers = [int(row) for unit in read for row in unit.numbers]
    assert numbers == list(range(len(rows)))
    texts = [text for unit in read for text in unit.batch["text"].tolist()]
    assert texts == [text for _, text in rows]


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.integers(0, 9999), min_size=1, max_size=80),
    st.integers(1, 9),
    st.integers(3, 40),
    st.booleans(),
)
def test_json_units_cover_every_line_once(monkeypatch_bytes, values, unit_rows, block, is_ended):
    text = "\n".join(f'{{"x": [{value}, 1]}}' for value in values) + "\n" * is_ended
    monkeypatch_bytes(block)
    source = reader_of("a.jsonl", text.encode())
    survey = JsonLines().survey(source, unit_rows)
    read = [JsonLines().read(source, span, survey.columns) for span in survey.ranges]
    assert [int(row) for unit in read for row in unit.numbers] == list(range(len(values)))
    assert [int(x[0]) for unit in read for x in unit.batch["x"]] == values


@pytest.fixture(scope="module")
def monkeypatch_bytes():
    """Small files are cut as large ones are, and read in blocks of so many bytes."""
    from tpuctl.serving.batch.formats import input_reader, record_ends

    patch = pytest.MonkeyPatch()
    patch.setattr(record_ends, "ONE_UNIT_BYTES", 0)

    def use(block):
        patch.setattr(input_reader, "BLOCK_BYTES", block)

    yield use
    patch.undo()


def plan_of(units, version="v"):
    units = tuple(units)
    inputs = tuple(dict.fromkeys(unit.input for unit in units))
    return UnitPlan(version, "in", "npz", "npz", (TableColumn("x", "<f8"),), inputs, units)


OBJECTS = st.builds(
    InputObject,
    st.text(st.sampled_from("ab-/.0"), min_size=1, max_size=8).map(lambda name: f"{name}.npz"),
    st.integers(1, 3), st.just(10), st.just("AAAAAA=="),
)  # fmt: skip
UNITS = st.tuples(OBJECTS, st.integers(0, 20), st.integers(1, 20))


@given(st.lists(UNITS, unique=True, max_size=30), st.sampled_from(["v", "w"]))
def test_names_of_outputs_are_injective(units, version):
    planned = [
        PlannedUnit(number, each, UnitRange(start, start + rows, start, rows))
        for number, (each, start, rows) in enumerate(units)
    ]
    plan = plan_of(planned, version)
    keys = [plan.output_key(unit) for unit in planned] + [plan.rejects_key(u) for u in planned]
    assert len(set(keys)) == len(keys)
    assert all(not key.startswith("_tpuctl/") for key in keys)
    other = plan_of(planned, f"{version}2")
    assert set(keys).isdisjoint(other.output_key(unit) for unit in planned)


@given(st.lists(UNITS, unique_by=lambda each: each[0].key, max_size=10))
def test_a_plan_survives_its_bytes(units):
    plan = plan_of(
        PlannedUnit(number, each, UnitRange(start, start + rows, start, rows))
        for number, (each, start, rows) in enumerate(units)
    )
    assert decode_plan(encode_plan(plan), "out") == plan


@pytest.mark.parametrize("data", [b"", b"[]", b'{"schema": 9}', b'{"schema": 1}', b"\xff"])
def test_a_damaged_plan_is_one_error(data):
    with pytest.raises(DamagedStateError, match=r"out/_tpuctl/plan\.json"):
        decode_plan(data, "out")


@pytest.mark.parametrize(
    ("url", "directory", "pattern"),
    [
        ("gs://b/data/*.csv", "gs://b/data", "*.csv"),
        ("gs://b/data", "gs://b/data", "**"),
        ("gs://b/data/", "gs://b/data", "**"),
        ("gs://b/v1.5/", "gs://b/v1.5", "**"),
        ("gs://b/data/x.npz", "gs://b/data", "x.npz"),
        ("gs://my.bucket", "gs://my.bucket", "**"),
        ("gs://b/2024-*/x.csv", "gs://b", "2024-*/x.csv"),
        ("gs://b/*.csv", "gs://b", "*.csv"),
    ],
)
def test_an_input_is_a_directory_and_a_pattern(url, directory, pattern):
    assert split_pattern(url) == (directory, pattern)


@pytest.mark.parametrize(
    ("pattern", "keys"),
    [
        ("**", ["a.csv", "b.csv", "d/c.csv", "d/e/f.csv"]),
        ("*.csv", ["a.csv", "b.csv"]),
        ("**/*.csv", ["a.csv", "b.csv", "d/c.csv", "d/e/f.csv"]),
        ("d/**", ["d/c.csv", "d/e/f.csv"]),
        ("d/*", ["d/c.csv"]),
        ("?.csv", ["a.csv", "b.csv"]),
        ("[!a].csv", ["b.csv"]),
        ("[a-b].csv", ["a.csv", "b.csv"]),
    ],
)
def test_what_a_pattern_takes(pattern, keys):
    store = MemoryStore(MemoryBucket())
    for key in ("a.csv", "b.csv", "d/c.csv", "d/e/f.csv", "_SUCCESS", "d/_x/a.csv", ".h.csv"):
        store.put_if_absent(key, b"x\n")
    assert [each.key for each in list_inputs(store, pattern, "in")] == keys


@pytest.mark.parametrize(
    ("given", "output", "is_refused"),
    [
        ("gs://b/in/*.csv", "gs://b/in/out", True),
        ("gs://b/in/*.csv", "gs://b/in", True),
        ("gs://b/in/*.csv", "gs://b", True),
        ("gs://b/*.csv", "gs://b/out", True),
        ("gs://b/in/*.csv", "gs://b/input", False),
        ("gs://b/in", "gs://c/in", False),
    ],
)
def test_input_and_output_lie_apart(given, output, is_refused):
    if not is_refused:
        refuse_overlap(given, output)
        return
    with pytest.raises(UsageError, match="lie in one another"):
        refuse_overlap(given, output)


def test_the_version_has_all_but_where_things_lie():
    plain = BatchSettings("in", "out", program="p")
    same = BatchSettings("other", "elsewhere", program="p", max_rejects=3)
    assert plain.version("1") == same.version("1") != plain.version("2")
    assert plain.version("1") != BatchSettings("in", "out", program="p", step=3).version("1")
    assert read_settings({"TPUCTL_PREDICT": same.to_json()}) == same
    for bad in ("", "{", "3", '{"input": 1}'):
        with pytest.raises(UsageError, match="TPUCTL_PREDICT"):
            read_settings({"TPUCTL_PREDICT": bad})
