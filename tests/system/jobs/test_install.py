"""The command that brings the agent to a worker, as the worker's own python3 runs it."""

import base64
import json
import subprocess
import sys

import pytest

from tpuctl.jobs.workers import installation as installing

BYTES = b"PK\0\xff\r\n"
RUN = ".tpuctl/jobs/j-1-a1"
AGENT = "import sys; print(sys.argv[1:], sys.stdin.read())"


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """`installed(fence)`: install a run, whose agent says how it was called, in a home."""
    monkeypatch.setenv("HOME", str(tmp_path))
    jobs = tmp_path / ".tpuctl" / "jobs"

    def install(fence: int = 5) -> subprocess.CompletedProcess:
        files = {"agent.py": AGENT, "config.json": f"[{fence}]"}
        archives = {"library.zip": base64.b64encode(BYTES).decode()}
        asked = {
            "program": installing.INSTALL, "directory": RUN, "fence": fence, "files": files,
            "archives": archives, "secrets": {},
        }  # fmt: skip
        return subprocess.run(
            [sys.executable, *installing.install_argv(RUN)[1:]], input=json.dumps(asked),
            capture_output=True, text=True, check=False,
        )  # fmt: skip

    install.directory = jobs / "j-1-a1"
    install.fence = jobs / "j-1.fence"
    return install


def test_a_run_begins_with_its_files_and_its_secrets(installed):
    assert installed().stdout == (
        f"['run', '{installed.directory}', '--watch'] {{\"secrets\": {{}}}}\n"
    )
    assert (installed.directory / "config.json").read_text() == "[5]"
    assert (installed.directory / "library.zip").read_bytes() == BYTES


def test_a_supervisor_whose_lease_is_over_changes_nothing(installed):
    installed()
    installed.fence.symlink_to("9")
    assert installed(6).returncode == 3
    assert (installed.directory / "config.json").read_text() == "[5]"
    assert installed(9).returncode == 0


def test_the_files_of_a_run_that_is_there_stay_as_they_are(installed):
    installed()
    (installed.directory / "status.json").write_text("{}")
    assert "'run'" in installed(6).stdout
    assert (installed.directory / "config.json").read_text() == "[5]"
