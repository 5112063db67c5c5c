"""pyarrow's own tests of its Cloud Storage file system, which ship in its package.

They start the program `storage-testbench --port PORT` from PATH: here that is this service.
"""

import os
import shlex
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from client.storage import storage_process
from clouds import MATRIX

from contract.foreign.suite_results import read_report

pytest.importorskip("pyarrow", reason="pyarrow is not installed")
pytestmark = [
    MATRIX,
    pytest.mark.skipif(find_spec("pyarrow.tests") is None, reason="this pyarrow ships no tests"),
]

TESTBENCH = """\
#!/bin/sh
export PYTHONPATH={path} STORAGE_PORT="$2"
exec {python} {server} {directory} > {printed}
"""


def test_every_test_of_the_file_system_passes(tmp_path: Path):
    programs, report = tmp_path / "bin", tmp_path / "report.xml"
    programs.mkdir()
    testbench = programs / "storage-testbench"
    checkout = Path(__file__).parents[3]
    places = {
        "path": checkout,
        "python": sys.executable,
        "server": storage_process.__file__,
        "directory": tmp_path / "objects",
        "printed": tmp_path / "printed",
    }
    quoted = {name: shlex.quote(str(place)) for name, place in places.items()}
    testbench.write_text(TESTBENCH.format(**quoted), "utf-8")
    testbench.chmod(0o755)
    options = [
        "-q",
        "-p",
        "no:cacheprovider",
        f"--basetemp={tmp_path / 'own'}",
        f"--junitxml={report}",
    ]
    options += ["-k", "gcs or GcsFileSystem", "--pyargs", "pyarrow.tests.test_fs"]
    environment = {"PATH": f"{programs}:{os.environ['PATH']}", "PYARROW_TEST_GCS": "ON"}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options],
        cwd=tmp_path,
        env={**os.environ, **environment, "PYTEST_ADDOPTS": ""},
        capture_output=True,
        text=True,
        timeout=100,
    )
    result = read_report("junit", report, report)
    assert result.failed == (), done.stdout
    assert result.passed > 30, done.stdout
