"""Lists: what fits a window is whole, and what does not fit is named."""

import io
import json
import os
import re
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.color import Color

from tpuctl.cli.shell.options import Shared
from tpuctl.cli.shell.output import WORKER_COLOURS, Output
from tpuctl.cli.shell.tables.fit import GAP, TEXT_WIDTH, fit_columns
from tpuctl.cli.shell.tables.grid import STATE_STYLES
from tpuctl.cli.shell.tables.listing import ListFlags, Listing, choose_columns, choose_rows
from tpuctl.cli.shell.tables.values import (
    PointInTime,
    Quantity,
    Size,
    Usd,
    attributes,
    cell_of,
    plain,
    seen,
)
from tpuctl.errors import UsageError
from tpuctl.models.duration import age
from unit.cli.test_page_palette import DRAWN_RATIO, contrast

NOW_S = 1_800_000_000.0
NAMES = st.text("abcdefghijklmnopqrstuvwxyz0123456789-", min_size=1, max_size=30)
ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "name": NAMES,
            "zone": st.sampled_from(["us-west4-a", "europe-west4-b", "asia-northeast1-b"]),
            "state": st.sampled_from(["READY", "PREEMPTED", "WAITING_FOR_RESOURCES"]),
            "size_bytes": st.integers(0, 2**50).map(Size),
            "chips": st.integers(0, 10**6),
            "usd_per_hour": st.floats(0, 10_000).map(Usd),
            "created": st.floats(0, 10**7).map(lambda ago: PointInTime(NOW_S - ago)),
            "why": st.text(min_size=0, max_size=200),
        }
    ),
    min_size=1,
    max_size=6,
)
KEYS = {key: (lambda row, key=key: row[key]) for key in (
    "name", "zone", "state", "size_bytes", "chips", "usd_per_hour", "created", "why",
)}  # fmt: skip
LISTING = Listing(KEYS, least=("chips", "created"))


class Screen(io.StringIO):
    def isatty(self):
        return True


def shown(rows, columns, listing=LISTING, **shared):
    out = Screen()
    with mock.patch.dict(os.environ, {"COLUMNS": str(columns), "NO_COLOR": "1", "TERM": "xterm"}):
        Output(Shared(**shared), out, io.StringIO(), lambda: NOW_S).items(rows, listing)
    return re.sub("\x1b\\[[0-9;]*m", "", out.getvalue()).splitlines()


@given(ROWS, st.integers(40, 240))
def test_every_number_and_name_is_whole_or_its_column_is_named_below(rows, window):
    heading, *lines = shown(rows, window)
    first_named = next((n for n, line in enumerate(lines) if line.startswith("not shown: ")), None)
    named = " ".join(lines[first_named:]) if first_named is not None else ""
    lines = unfolded(lines[:first_named], {row["name"] for row in rows})
    assert named.startswith("not shown: ") or not named
    headings = {key: key.upper() for key in KEYS} | {"size_bytes": "SIZE", "usd_per_hour": "USD/H"}
    left = set(re.findall(r"[A-Z/]+(?=,| \()", named))
    for key, name in headings.items():
        assert (name in heading.split()) != (name in left), (key, heading, named)
    assert len(lines) == len(rows)
    for row, line in zip(rows, lines, strict=True):
        for key, name in headings.items():
            text = seen(row[key], lambda epoch_s: age(NOW_S - epoch_s))
            if name not in left and key != "why":
                assert text in line, (key, text, line)
    assert len(heading) <= window
    for line in lines:
        assert len(line.partition("\n")[2] or line) <= window or len(left) == 7


def unfolded(lines, names):
    """The rows, where a name on a line of its own is joined with the line that follows it."""
    rows = []
    for line in lines:
        if rows and rows[-1] in names and line.startswith(" "):
            rows[-1] += f"\n{line}"
        else:
            rows.append(line)
    return rows


@given(
    st.dictionaries(NAMES, st.integers(1, 80), min_size=1, max_size=12),
    st.integers(1, 240),
    st.data(),
)
def test_only_text_is_shortened_and_what_is_kept_fits(natural, window, data):
    names = st.sampled_from(sorted(natural))
    text, least = data.draw(st.sets(names)), data.draw(st.lists(names, unique=True))
    fitted = fit_columns(natural, window, text=text, least=least)
    assert [*fitted.widths, *fitted.left_out] != []
    assert sorted([*fitted.widths, *fitted.left_out]) == sorted(natural)
    assert next(iter(natural)) in fitted.widths
    for name, width in fitted.widths.items():
        may_narrow = name in text or name == next(iter(natural))
        assert width == natural[name] or (may_narrow and TEXT_WIDTH <= width < natural[name])
    total = sum(fitted.widths.values()) + GAP * (len(fitted.widths) - 1)
    assert total <= window or len(fitted.widths) == 1


def test_the_least_important_columns_leave_first_and_then_those_on_the_right():
    natural = {"name": 10, "zone": 10, "type": 10, "price": 10}
    kept = [
        list(fit_columns(natural, window, least=["zone"]).widths) for window in (46, 45, 33, 21)
    ]
    assert kept == [
        ["name", "zone", "type", "price"],
        ["name", "type", "price"],
        ["name", "type"],
        ["name"],
    ]


ROW = {"name": "n1", "zone": "us-west4-a", "state": "READY", "size_bytes": Size(584), "chips": 16,
       "usd_per_hour": Usd(4.804), "created": PointInTime(NOW_S - 90), "why": None}  # fmt: skip
OTHER = ROW | {
    "name": "n2",
    "state": "CREATING",
    "chips": 4,
    "why": "no capacity",
    "size_bytes": Size(2048),
}


def test_a_narrow_window_shortens_text_and_names_what_it_leaves_out():
    rows = [ROW, OTHER | {"why": "there is no more capacity in the zone 'us-west4-a'"}]
    assert shown(rows, 66) == [
        "NAME  ZONE        STATE        SIZE  USD/H  WHY",
        "n1    us-west4-a  READY       584 B   4.80  -",
        "n2    us-west4-a  CREATING  2.0 KiB   4.80  there is no more capa…",
        "not shown: CHIPS, CREATED (-o wide, or a wider window)",
    ]
    assert shown(rows, 20, output="wide")[2].endswith("in the zone 'us-west4-a'")


def test_a_long_name_has_a_line_of_its_own_before_a_figure_leaves():
    rows = [ROW | {"name": "corpus/english/part-00000-of-01024.tfrecord"}, OTHER]
    keys = {key: KEYS[key] for key in ("name", "size_bytes", "created", "zone")}
    assert shown(rows, 44, Listing(keys, least=("zone",))) == [
        "NAME                           SIZE  CREATED",
        "corpus/english/part-00000-of-01024.tfrecord",
        "                              584 B  2 m",
        "n2                          2.0 KiB  2 m",
        "not shown: ZONE (-o wide, or a wider window)",
    ]
    assert shown(rows, 60, Listing(keys, least=("zone",)))[1].endswith(".tfrecord")
    # The terminal breaks what is longer than the window: the rest is aligned beside its end.
    assert shown([rows[0]], 32, Listing(keys, least=("zone",)))[:2] == [
        "NAME               SIZE  CREATED",
        "corpus/english/part-00000-of-01024.tfrecord".ljust(32 + 18) + "584 B  2 m",
    ]


def test_colours_can_be_read_on_black_and_on_white():
    styles = {*STATE_STYLES.values(), *(f"color({number})" for number in WORKER_COLOURS)}
    colours = {style: Color.parse(style).get_truecolor().hex for style in styles - {"red"}}
    weak = [
        (style, ground)
        for style, colour in colours.items()
        for ground in ("#000000", "#ffffff")
        if contrast(colour, ground) < DRAWN_RATIO
    ]
    assert (weak, len({*WORKER_COLOURS})) == ([], 10)


def test_prices_are_aligned_with_their_heading_where_none_is_known():
    rows = [{"name": "n1", "usd_per_hour": None, "state": "READY"}]
    listing = Listing({key: (lambda row, key=key: row[key]) for key in rows[0]})
    assert shown(rows, 80, listing) == ["NAME  USD/H  STATE", "n1        -  READY"]


def test_a_pipe_gets_the_same_columns_with_tabs_below_a_header():
    out = io.StringIO()
    Output(Shared(), out, io.StringIO(), lambda: NOW_S).items([ROW], LISTING)
    assert out.getvalue() == (
        "NAME\tZONE\tSTATE\tSIZE\tCHIPS\tUSD/H\tCREATED\tWHY\n"
        "n1\tus-west4-a\tREADY\t584\t16\t4.80\t2027-01-15T07:58:30Z\t-\n"
    )
    out = io.StringIO()
    Output(Shared(no_headers=True), out, io.StringIO(), lambda: NOW_S).items([ROW], LISTING)
    assert out.getvalue().startswith("n1\t")


def test_tab_separated_values_have_keys_and_raw_values():
    out = io.StringIO()
    Output(Shared(output="tsv"), out, io.StringIO(), lambda: NOW_S).items([ROW], LISTING)
    header, row = out.getvalue().splitlines()
    assert header.split("\t") == list(KEYS)
    assert row.split("\t") == [
        "n1", "us-west4-a", "READY", "584", "16", "4.804", "2027-01-15T07:58:30Z", "",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("flags", "names"),
    [
        ({"filter": ("state=READY",)}, ["n1"]),
        ({"filter": ("why~capac",)}, ["n2"]),
        ({"filter": ("chips=16", "zone~^us-")}, ["n1"]),
        ({"filter": ("USD/H=4.80",)}, ["n1", "n2"]),
        ({"sort": "chips"}, ["n2", "n1"]),
        ({"sort": "-size_bytes"}, ["n2", "n1"]),
        ({"sort": "why"}, ["n2", "n1"]),
        ({"limit": 1}, ["n1"]),
        ({"limit": 0}, []),
    ],
)
def test_options_choose_rows(flags, names):
    chosen = choose_rows([ROW, OTHER], LISTING, ListFlags(**flags))
    assert [row["name"] for row in chosen] == names


def test_options_choose_columns_for_programs_too():
    out = io.StringIO()
    flags = ListFlags(columns="chips,name")
    Output(Shared(output="json"), out, io.StringIO(), lambda: NOW_S, flags).items([ROW], LISTING)
    assert json.loads(out.getvalue()) == [{"chips": 16, "name": "n1"}]
    assert choose_columns(LISTING, ListFlags()) is None


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ({"filter": ("state",)}, "--filter 'state' is not KEY=VALUE or KEY~REGEX"),
        ({"filter": ("colour=red",)}, "this list has no column 'colour'"),
        ({"filter": ("name~(",)}, "--filter 'name~(': '(' is not a regular expression: "
         "missing ), unterminated subpattern at position 0"),
        ({"sort": "colour"}, "this list has no column 'colour'"),
        ({"limit": -1}, "--limit must be at least 0, not -1"),
    ],
)  # fmt: skip
def test_bad_options_are_named(flags, message):
    with pytest.raises(UsageError, match=re.escape(message)):
        list(choose_rows([ROW], LISTING, ListFlags(**flags)))


def test_values_for_people_and_for_programs():
    by_age = lambda epoch_s: age(NOW_S - epoch_s)  # noqa: E731
    rows = [(Size(1229), "1229", 1229, "1.2 KiB"), (12345.678, "12345.678", 12345.678, "12346"),
            (0.5, "0.5", 0.5, "0.5"), (True, "yes", True, "yes"), (None, "-", None, "-"),
            ([1, "a"], "1,a", [1, "a"], "1,a"), (Usd(0.04), "0.0400", 0.04, "0.0400"),
            (Quantity(91552.7, "91,553"), "91552.7", 91552.7, "91,553"),
            (Quantity((0.5, 2.0), "0.5 - 2 s"), "0.5 - 2", [0.5, 2.0], "0.5 - 2 s")]  # fmt: skip
    for value, in_pipe, in_json, to_people in rows:
        assert (cell_of(value), plain(value), seen(value, by_age)) == (in_pipe, in_json, to_people)


def test_attributes_take_paths():
    assert attributes("real", whole="numerator")["whole"](3) == 3


def fields_shown(fields, columns):
    out = Screen()
    with mock.patch.dict(os.environ, {"COLUMNS": str(columns), "NO_COLOR": "1", "TERM": "xterm"}):
        Output(Shared(), out, io.StringIO(), lambda: NOW_S).fields(fields)
    return re.sub("\x1b\\[[0-9;]*m", "", out.getvalue()).splitlines()


def test_the_fields_of_one_thing_are_text_on_a_screen():
    fields = {
        "name": "n1",
        "created": PointInTime(NOW_S - 7200),
        "valid_until": PointInTime(NOW_S + 60),
        "labels": {"team": "vision", "owner": "ada"},
        "addresses": ["10.0.0.1", "10.0.0.2"],
        "symptoms": [
            {
                "worker": "0",
                "kind": "LOW_MEMORY",
                "details": None,
                "created": PointInTime(NOW_S - 60),
            },
            {"worker": "1", "kind": "OUT_OF_MEMORY", "details": "2 GiB", "created": None},
        ],
        "disks": [],
        "description": "",
        "health": None,
        "boot_disk": {},
        "size_bytes": Size(2048),
        "spot": True,
        "restarts": 0,
        "usd_per_hour": None,
    }
    assert fields_shown(fields, 80) == [
        "name         n1",
        "created      2027-01-15T06:00:00Z (2 h ago)",
        "valid until  2027-01-15T08:01:00Z",
        "labels       team=vision, owner=ada",
        "addresses    10.0.0.1, 10.0.0.2",
        "symptoms     worker=0, kind=LOW_MEMORY, created=2027-01-15T07:59:00Z (1 m ago)",
        "             worker=1, kind=OUT_OF_MEMORY, details=2 GiB",
        "size         2.0 KiB",
        "spot         yes",
        "restarts     0",
        "usd/h        -",
    ]


def test_an_error_ends_its_lines_with_words_and_its_hint_is_one_line():
    for stream, width in ((Screen(), 40), (io.StringIO(), 400)):
        output = Output(Shared(), io.StringIO(), stream, lambda: NOW_S)
        error = UsageError("node 'n1' is not in us-west4-a but in us-east5-b", hint="x " * 40)
        with mock.patch.dict(os.environ, {"COLUMNS": "40", "NO_COLOR": "1"}):
            output.failure(error)
            output.warn("a bucket is far away from the slices of the job")
        *lines, warned, rest = stream.getvalue().splitlines() + [""] * (width > 40)
        wanted = "error: node 'n1' is not in us-west4-a but in us-east5-b"
        assert " ".join(lines[:-1]) == wanted
        assert max(map(len, [*lines[:-1], warned, rest])) <= width
        assert lines[-1] == f"hint: {'x ' * 40}"


def test_messages_end_their_lines_with_words_but_for_commands():
    stream, long = Screen(), "job digits-1: RECOVERING: queued resource digits-1-a2 is ACCEPTED"
    output = Output(Shared(), io.StringIO(), stream, lambda: NOW_S)
    command = "job digits-1 is submitted: tpuctl job logs -f digits-1"
    with mock.patch.dict(os.environ, {"COLUMNS": "40"}):
        output.note(long)
        output.note(command)
    assert stream.getvalue().splitlines() == [
        "job digits-1: RECOVERING: queued",
        "resource digits-1-a2 is ACCEPTED",
        command,
    ]


def test_values_are_wrapped_beside_their_labels_or_below_them_in_a_narrow_window():
    fields = {"name": "n1", "service_account": "tpu", "why": "there is no capacity in the zone"}
    assert fields_shown(fields, 40) == [
        "name             n1",
        "service account  tpu",
        "why              there is no capacity in",
        "                 the zone",
    ]
    url = {"name": "n1", "scopes": "https://a.example/auth/pubsub"}
    assert fields_shown(url, 32) == ["name    n1", "scopes", "  https://a.example/auth/pubsub"]
    assert fields_shown(fields, 24) == [
        "name",
        "  n1",
        "service account",
        "  tpu",
        "why",
        "  there is no capacity",
        "  in the zone",
    ]
