"""The files of a rehearsal: JUnit XML, one HTML page, Markdown for CI, a badge."""

import io
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tpuctl.cli.rehearse import badge
from tpuctl.cli.rehearse.event_display import render_events
from tpuctl.cli.rehearse.html_report import html_text, style
from tpuctl.cli.rehearse.junit_xml import junit_text
from tpuctl.cli.rehearse.report_files import ReportFiles
from tpuctl.cli.rehearse.run_picture import MomentMarks, run_picture
from tpuctl.cli.rehearse.step_summary import HEADINGS, summary_markdown
from tpuctl.cli.rehearse.timeline_entries import entry_lasts_s, entry_named, entry_text
from tpuctl.cli.shell.runtime import Runtime
from tpuctl.cli.web.html import VOID
from tpuctl.cli.web.palette import COLORS
from tpuctl.errors import LocalIOError
from tpuctl.models.job import AttemptOutcome
from tpuctl.models.rehearsal.moment import Disturbance, Moment
from tpuctl.models.rehearsal.run_history import (
    AttemptSpan,
    FiredDisturbance,
    LoggedStep,
    RunHistory,
    SaveSpan,
)
from tpuctl.operations.rehearse.events import RehearsalEnded
from unit.cli.rehearse.sample_reports import (
    ALL_PASS,
    NEVER_SAVED,
    REPORTS,
    SOME_FAIL,
    TORN_VERDICT,
    UNSEEN,
    passing,
)
from unit.cli.test_page_palette import TEXT_RATIO, contrast

BEGAN_S = 1_800_000_000.0
SVG = "{http://www.w3.org/2000/svg}"
ANY_REPORT = pytest.mark.parametrize("report", REPORTS.values(), ids=REPORTS)
SUITE = {
    "name": r".+", "package": r".+", "id": r"\d+", "tests": r"\d+", "failures": r"\d+",
    "errors": r"\d+", "skipped": r"\d+", "time": r"\d+\.\d+", "hostname": r".+",
    "timestamp": r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d",
}  # fmt: skip
CASE = {"name": r".+", "classname": r".+", "time": r"\d+\.\d+"}
ENDS = {"failure": {"message", "type"}, "skipped": {"message"}}
"""The schema of Apache Ant's JUnit task: attributes of elements, and what they look like."""


def matches(element, patterns):
    return set(element.attrib) == set(patterns) and all(
        re.fullmatch(pattern, element.get(name)) for name, pattern in patterns.items()
    )


def suite_of(report):
    """The one suite of the document, whose form is as the schema wants it."""
    root = ElementTree.fromstring(junit_text(report, began_s=BEGAN_S))
    assert (root.tag, root.attrib, len(root)) == ("testsuites", {}, 1)
    suite = root[0]
    assert matches(suite, SUITE)
    names = [child.tag for child in suite]
    count = int(suite.get("tests"))
    assert names == ["properties", *["testcase"] * count, "system-out", "system-err"]
    assert all(each.attrib.keys() == {"name", "value"} for each in suite[0])
    for case in suite.iter("testcase"):
        assert matches(case, CASE)
        assert [end.attrib.keys() for end in case] == [ENDS[end.tag] for end in case]
        assert len(case) <= 1
    for kind, tag in (("failures", "failure"), ("skipped", "skipped")):
        assert int(suite.get(kind)) == len(list(suite.iter(tag)))
    return suite


@ANY_REPORT
def test_junit_has_a_case_for_the_reference_and_each_moment(report):
    suite = suite_of(report)
    moments = [each.moment.name for each in report.verdicts]
    cases = {case.get("name"): case for case in suite.iter("testcase")}
    assert list(cases) == ["reference", *moments, *report.skipped]
    assert suite.get("timestamp") == "2027-01-15T08:00:00"
    times = [float(cases[each.moment.name].get("time")) for each in report.verdicts]
    assert times == [each.wall_s for each in report.verdicts]


def test_a_failure_in_junit_has_the_cause_the_evidence_and_the_command():
    suite = suite_of(SOME_FAIL)
    failure = next(
        case for case in suite.iter("testcase") if case.get("name") == "save:marker/none"
    )[0]
    assert failure.get("type") == "marker-before-other-workers"
    assert failure.get("message") == (
        "marker-before-other-workers: worker 0 writes 0000000030/COMMIT (request 412) before "
        "worker 3 has written 0000000030/part-3; "
        "replay: tpuctl rehearse job.yaml --only save:marker/none --seed 7"
    )
    assert "fail    values: the loss of step 31 is 0.41258, and 0.39871 in the reference" in (
        failure.text.splitlines()
    )
    ends = {case.get("name"): case[0] for case in suite.iter("testcase") if len(case)}
    assert {name: end.tag for name, end in ends.items()} == {
        "save:before-first/30s": "skipped",
        "save:marker/none": "failure",
        "restore/5s": "failure",
        "no-capacity": "skipped",
        "unreachable": "skipped",
    }
    assert ends["save:before-first/30s"].get("message").startswith("unknown: came-back: ")


def test_a_reference_that_fails_is_a_failed_case():
    (case,) = suite_of(NEVER_SAVED).iter("testcase")
    assert case[0].get("type") == "never-saves"


@given(st.text())
def test_what_a_program_prints_cannot_break_a_report(text):
    checks = (replace(TORN_VERDICT.checks[0], evidence=text, judgement=TORN_VERDICT.judgement),)
    verdict = replace(SMALL.verdicts[0], explanation=text, checks=checks, cause=None)
    moment = replace(verdict.moment, title=text, place=text)
    report = replace(SMALL, verdicts=(replace(verdict, moment=moment),))
    suite_of(report)
    assert elements_of(report) == elements_of(SMALL)
    rows = [line for line in summary_markdown(report).splitlines() if line.startswith("| ")]
    assert len(rows) == 2 + 1 + len(report.skipped)
    assert {len(re.findall(r"(?<!\\)\|", row)) for row in rows} == {len(HEADINGS) + 1}


SMALL = replace(
    SOME_FAIL, reference=replace(SOME_FAIL.reference, history=None),
    verdicts=(replace(TORN_VERDICT, checks=TORN_VERDICT.checks[:1], history=None),),
)  # fmt: skip


class PageParser(HTMLParser):
    """Collects the elements of a page; each one that begins must end in its order."""

    def __init__(self):
        super().__init__()
        self.elements, self.open, self.words = [], [], []

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words.append(data)


def parsed(report):
    parser = PageParser()
    parser.feed(html_text(report, began_s=BEGAN_S))
    parser.close()
    assert parser.open == []
    return parser


def elements_of(report):
    return [name for name, _ in parsed(report).elements]


@ANY_REPORT
def test_the_page_needs_nothing_but_itself(report):
    page = parsed(report)
    for name, attributes in page.elements:
        assert name not in ("script", "link", "img", "iframe", "base", "form")
        assert not {"src", "action", "style", "onclick"} & attributes.keys()
        assert attributes.get("href", "#").startswith("#")
    assert not re.search(r"url\(|@import|https?:", html_text(report, began_s=BEGAN_S))
    policy = next(a for n, a in page.elements if a.get("http-equiv"))
    assert policy["content"] == "default-src 'none'; style-src 'unsafe-inline'"


@ANY_REPORT
def test_the_page_has_a_described_picture_of_each_run_and_working_links(report):
    page = parsed(report)
    pictures = [attrs for name, attrs in page.elements if attrs.get("role") == "img"]
    assert len(pictures) == len(report.verdicts) + 1
    assert all(len(each["aria-label"]) > 40 for each in pictures)
    ids = {attrs["id"] for _, attrs in page.elements if "id" in attrs}
    links = [attrs["href"][1:] for _, attrs in page.elements if "href" in attrs]
    assert links == [f"moment-{number}" for number in range(len(report.verdicts))]
    assert set(links) <= ids
    headings = [name for name, _ in page.elements if re.fullmatch("h[1-6]", name)]
    assert headings == ["h1", *["h2"] * (len(report.verdicts) + 1)]


def test_the_page_says_every_check_and_how_to_replay_a_moment():
    words = parsed(SOME_FAIL).words
    text = "".join(words)
    for verdict in SOME_FAIL.verdicts:
        assert verdict.replay in words
        assert all(f": {check.evidence}" in words for check in verdict.checks)
    assert "a worker <ended> with exit status 1 & no step" in text
    assert all(f"{name}" in words for name in SOME_FAIL.skipped)


def test_the_picture_in_words_tells_the_same():
    words = next(
        attrs["aria-label"]
        for _, attrs in parsed(replace(ALL_PASS, verdicts=(passing("restore", "none"),))).elements
        if "preempted, " in attrs.get("aria-label", "")
    )
    assert words == (
        "attempt 1 preempted, 0.2 s to 12 s, steps 1 to 37; "
        "attempt 2 succeeded, 13 s to 23 s, steps 31 to 60; "
        "6 complete saves, 0 incomplete; preempted, no notice at 12 s; recovered at 17 s"
    )


ENTRIES = Moment(
    "twice/5s", "twice", Disturbance.STORAGE_ERRORS,
    (
        {
            "name": "first", "when": "at step 5 of x/0", "do": "preempt x-* without notice",
            "then": [
                {"name": "again", "do": ["capacity z t: 0", "preempt x-* with notice of 5s"],
                 "then": [{"name": "deep", "do": "storage.*: return-503", "for": "1m30s"}]},
            ],
        },
        {"name": "odd", "do": "nothing", "for": "soon"},
    ),
)  # fmt: skip


@pytest.mark.parametrize(
    ("name", "text", "lasts_s"),
    [
        ("first", "preempted, no notice", None),
        ("again", "preempted, 5 s of notice", 5.0),
        ("deep", "storage errors", 90.0),
        ("odd", "storage errors", None),
        ("not there", "storage errors", None),
    ],
)
def test_what_an_entry_of_the_timeline_does(name, text, lasts_s):
    entry = entry_named(ENTRIES, name)
    assert (entry_text(entry, ENTRIES), entry_lasts_s(entry)) == (text, lasts_s)


TIMES_S = st.floats(-5, 1e6, allow_nan=False)
HISTORIES = st.builds(
    RunHistory,
    st.floats(0, 1e6),
    st.lists(
        st.builds(
            AttemptSpan, st.integers(1, 9), st.just("us-west4-a"), TIMES_S,
            *[st.none() | TIMES_S] * 4, st.none() | st.sampled_from(AttemptOutcome),
        ),
        max_size=4,
    ).map(tuple),
    st.lists(st.builds(LoggedStep, st.integers(1, 4), st.integers(0, 10**9), TIMES_S),
             max_size=8).map(tuple),
    st.lists(st.builds(SaveSpan, TIMES_S, st.none() | st.integers(0, 10**9), st.none() | TIMES_S),
             max_size=4).map(tuple),
    st.lists(TIMES_S, max_size=2).map(tuple),
    st.lists(st.builds(FiredDisturbance, st.just("kill"), TIMES_S), max_size=2).map(tuple),
)  # fmt: skip


@given(HISTORIES, st.none() | st.floats(0, 1e6), st.none() | st.integers(0, 10**9))
def test_any_run_can_be_drawn_within_its_picture(history, recovery_s, resumed_from):
    moment = passing("restore", "5s").moment
    marks = MomentMarks(moment, recovery_s, resumed_from)
    root = ElementTree.fromstring(run_picture(history, marks))
    for element in root.iter():
        for value in element.attrib.values():
            if number := re.fullmatch(r"(-?[\d.]+)%", value):
                assert 0 <= float(number[1]) <= 100
        heights = [element.get(key) for key in ("y1", "y2", "cy") if element.get(key)]
        assert all(0 <= float(each) <= float(root.get("height")) for each in heights)


def test_every_colour_of_the_page_is_one_whose_contrast_is_tested():
    used = set(re.findall(r"var\(--([\w-]+)\)", style()))
    assert used <= set(COLORS)
    assert not re.search(r"#[0-9a-f]{3,6}\b", style())
    classes = set(re.findall(r'class="([^"]+)"', html_text(SOME_FAIL, began_s=BEGAN_S)))
    named = {name for group in classes for name in group.split()}
    assert named - {"warn", "unknown"} <= set(re.findall(r"\.([a-z][\w-]*)", style()))


@pytest.mark.parametrize(
    ("report", "value", "color"),
    [
        (ALL_PASS, "12/12", badge.GREEN),
        (SOME_FAIL, "11/16", badge.RED),
        (replace(ALL_PASS, verdicts=(*ALL_PASS.verdicts[:3], UNSEEN)), "3/4", badge.AMBER),
        (replace(ALL_PASS, skipped=("unreachable",)), "12/13", badge.AMBER),
        (NEVER_SAVED, "never-saves", badge.RED),
        (replace(ALL_PASS, verdicts=()), "unknown", badge.AMBER),
    ],
)
def test_the_badge_says_how_many_moments_are_survived(report, value, color):
    root = ElementTree.fromstring(badge.badge_svg(report))
    texts = [each.text for each in root.iter(f"{SVG}text")]
    assert texts == ["survives preemption", value]
    assert [each.get("fill") for each in root.iter(f"{SVG}rect")][1:] == [badge.LABEL_COLOR, color]
    assert root.get("aria-label") == f"survives preemption: {value}"
    lengths = [int(each.get("textLength")) for each in root.iter(f"{SVG}text")]
    assert int(root.get("width")) == sum(lengths) + 4 * badge.PADDING


def test_white_text_can_be_read_on_every_badge():
    colors = (badge.GREEN, badge.RED, badge.AMBER, badge.LABEL_COLOR)
    assert min(contrast("#ffffff", each) for each in colors) >= TEXT_RATIO


def test_the_summary_for_ci():
    report = replace(
        SOME_FAIL, verdicts=(passing("restore", "none"), TORN_VERDICT), skipped=("unreachable",)
    )
    assert summary_markdown(report) == Path(__file__).with_name("summary.md").read_text("utf-8")


def render(files, report=SOME_FAIL):
    out, err = io.StringIO(), io.StringIO()
    runtime = Runtime(out=out, err=err, environ={}, now=lambda: BEGAN_S)
    render_events(runtime, [RehearsalEnded(report)], files)
    return err.getvalue()


def test_each_named_file_is_written_and_the_summary_is_appended(tmp_path):
    files = ReportFiles(*(tmp_path / name for name in ("j.xml", "r.html", "s.md", "b.svg")))
    files.summary.write_text("of another step\n")
    for _ in range(2):
        said = render(files)
    assert said.splitlines()[-4:] == [f"wrote {path}" for path in files.named()]
    assert files.junit.read_text() == junit_text(SOME_FAIL, began_s=BEGAN_S)
    assert files.html.read_text() == html_text(SOME_FAIL, began_s=BEGAN_S)
    assert files.badge.read_text() == badge.badge_svg(SOME_FAIL)
    assert files.summary.read_text() == "of another step\n" + 2 * summary_markdown(SOME_FAIL)


def test_a_file_that_cannot_be_written_is_reported_before_anything_runs(tmp_path):
    with pytest.raises(LocalIOError, match="the directory of .* does not exist") as caught:
        render(ReportFiles(junit=tmp_path / "ci" / "j.xml"))
    assert caught.value.hint == f"run: mkdir -p {tmp_path / 'ci'}"
    with pytest.raises(LocalIOError, match="is a directory"):
        render(ReportFiles(html=tmp_path))
