"""The doctor on a terminal: each line as it comes, its evidence beside it or below."""

import io
import os
from unittest import mock

import pytest

from tpuctl.cli.app import main
from tpuctl.cli.shell.runtime import Runtime
from tpuctl.config import Config, Context, save
from tpuctl.models.health import HealthCheck, HealthState
from tpuctl.operations.health import registry
from tpuctl.operations.health.scope import DoctorCheck

LINES = (
    HealthCheck("Python", HealthState.PASS, "3.12.1", "not shown where all is well"),
    HealthCheck(
        "disk of TMPDIR",
        HealthState.WARN,
        "500.0 MiB free in /tmp, which a local cloud with many workers may well fill",
        "export TMPDIR=/var/tmp",
    ),
    HealthCheck("node", HealthState.FAIL, "n1 is STOPPED", "tpuctl node start n1", is_safe=True),
)


class Screen(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def shown(tmp_path, monkeypatch):
    """`shown(columns, *argv)`: the exit code, and the lines of both streams."""
    row = DoctorCheck("all", lambda _scope: iter(LINES))
    monkeypatch.setattr(registry, "MACHINE_CHECKS", (row,))
    monkeypatch.setattr(registry, "CONTEXT_CHECKS", ())
    save(tmp_path, Config("lab", {"lab": Context("lab", "p", "us-west4-a", "b")}))

    def run(columns, *argv):
        out, err = Screen(), io.StringIO()
        runtime = Runtime(out=out, err=err, environ={"TPUCTL_HOME": str(tmp_path)})
        variables = {"COLUMNS": str(columns), "NO_COLOR": "1", "TERM": "dumb"}
        with mock.patch.dict(os.environ, variables):
            code = main(["doctor", *argv], runtime)
        return code, out.getvalue().splitlines(), err.getvalue().splitlines()

    return run


def test_in_a_wide_window_the_evidence_stands_beside_the_name(shown):
    assert shown(85) == (
        12,
        [
            "pass     Python                      3.12.1",
            "warn     disk of TMPDIR              500.0 MiB free in /tmp, which a local cloud with",
            "                                     many workers may well fill",
            "         run: export TMPDIR=/var/tmp",
            "fail     node                        n1 is STOPPED",
            "         run: tpuctl node start n1",
        ],
        ["1 of the fixes is safe; run: tpuctl doctor --fix", "1 pass, 1 warn, 1 fail"],
    )


def test_in_a_narrow_window_it_stands_below_the_name(shown):
    assert shown(60)[1][:4] == [
        "pass     Python",
        "         3.12.1",
        "warn     disk of TMPDIR",
        "         500.0 MiB free in /tmp, which a local cloud with",
    ]


def test_a_fix_has_the_context_that_the_command_was_given(shown):
    _, out, err = shown(90, "-c", "lab")
    assert out[-1] == "         run: tpuctl --context lab node start n1"
    assert err[0] == "1 of the fixes is safe; run: tpuctl --context lab doctor --fix"
