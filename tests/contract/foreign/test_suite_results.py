"""What the program that runs the suites reads of their reports, and writes to the page."""

import json
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
JUNIT = """<testsuites><testsuite>
<testcase classname="t" name="good"/>
<testcase classname="t" name="off"><skipped message="not here"/></testcase>
<testcase classname="t" name="bad"><failure message="one\ntwo"/></testcase>
<testcase classname="t" name="bad"><error message="failed on teardown"/></testcase>
</testsuite></testsuites>"""
MOCHA = {
    "passes": [{"fullTitle": "good"}],
    "pending": [{"fullTitle": "off"}],
    "failures": [{"fullTitle": "bad", "err": {"message": "one\ntwo"}}],
}
GSUTIL = """\
1/3 finished - E[0] F[0] s[0]
======================================================================
FAIL: bad (gslib.tests.test_mb.TestMb)
----------------------------------------------------------------------
Ran 3 tests in 0.000s

FAILED (failures=1, skipped=1)
"""


@pytest.fixture
def programs(monkeypatch):
    """The modules as the program itself finds them: beside it."""
    monkeypatch.syspath_prepend(str(HERE))
    import suite_page
    import suite_results

    yield suite_page, suite_results
    for name in ("suite_page", "suite_results"):
        del sys.modules[name]


@pytest.mark.parametrize(
    ("kind", "text", "name"),
    [
        ("junit", JUNIT, "t::bad"),
        ("mocha", json.dumps(MOCHA), "bad"),
        ("gsutil", GSUTIL, "test_mb.TestMb.bad"),
    ],
)
def test_a_report_is_counted_by_its_tests(programs, tmp_path, kind, text, name):
    _, results = programs
    report = tmp_path / "report"
    report.write_text(text)
    found = results.read_report(kind, report, report)
    assert (found.passed, found.skipped) == (1, 1)
    assert [test.name for test in found.failed] == [name]
    assert found.line("x") == "x: 1 passed, 1 failed, 1 skipped"


def test_a_suite_without_report_has_no_test(programs, tmp_path):
    _, results = programs
    assert results.read_report("junit", tmp_path / "none", tmp_path / "none").count == 0


def test_the_page_keeps_what_is_around_the_table(programs, tmp_path):
    pages, results = programs
    page = tmp_path / "page.md"
    page.write_text("# Head\n\n## How they went\n\nold\n\n## Stories\n\nrest\n")
    failed = (
        results.FailedTest("tests.system.test_notification::test_x", "503"),
        results.FailedTest("other::test_y", "a|b"),
    )
    result = results.SuiteResult(5, 1, failed)
    pages.write_page(page, [pages.SuiteRun("python-system", "c", "1.2", "2026-11-28", result)])
    text = page.read_text()
    assert text.startswith("# Head\n\n## How they went\n\n| suite |")
    assert text.endswith("\n## Stories\n\nrest\n")
    assert "| `python-system`: c | 1.2 | 2026-11-28 | 5 | 2 | 1 |" in text
    assert "| `test_x` | localsim has no Pub/Sub; the fixture makes a topic there |" in text
    assert "| `test_y` | not explained: a/b |" in text
