"""The plugin in runs of pytest of its own, and the TestCase in one of unittest."""

import os
import subprocess
import sys
from pathlib import Path

PLUGIN = ("-p", "localsim.testing.pytest_plugin", "-p", "no:cacheprovider")
ENVIRON = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
for name in ("PYTEST_XDIST_WORKER", "PYTEST_ADDOPTS"):
    ENVIRON.pop(name, None)


def run_pytest(directory: Path, *options: str) -> "subprocess.CompletedProcess[str]":
    argv = [sys.executable, "-m", "pytest", "-q", *PLUGIN, *options]
    return subprocess.run(
        argv, cwd=directory, env=ENVIRON, capture_output=True, text=True, check=False
    )


def write(directory: Path, text: str) -> None:
    (directory / "test_it.py").write_text(text)


FIXTURES = """\
import pytest

pytestmark = pytest.mark.localsim(
    isolation="process", offline=True, clock="manual", scenario={"provisioning_delay_s": 0}
)
pids = set()


@pytest.mark.parametrize("number", [1, 2])
def test_each_begins_with_an_empty_cloud(cloud, tpu_slice, bucket, number):
    pids.add(cloud.endpoints["pid"])
    assert cloud.tpuctl("node", "list", "-o", "json").json() == []
    assert len(list(cloud.storage_client().list_buckets())) == 2
    assert tpu_slice("v5litepod-8", name="n").state == "READY"
    bucket.blob("a").upload_from_string("hello")


def test_they_shared_a_simulator(cloud):
    assert pids == {cloud.endpoints["pid"]}


@pytest.mark.localsim(fresh=True)
def test_and_this_one_has_its_own(cloud):
    assert cloud.endpoints["pid"] not in pids
    assert cloud.options.clock == "manual"
"""


def test_the_fixtures_of_a_file(tmp_path):
    write(tmp_path, FIXTURES)
    done = run_pytest(tmp_path, "--strict-markers")
    assert done.returncode == 0, done.stdout
    assert "4 passed" in done.stdout


XDIST = """\
import pytest


@pytest.mark.localsim(isolation="process")
@pytest.mark.parametrize("number", range(6))
def test_it(cloud, number):
    cloud.storage_client().create_bucket("always-the-same-name")
    print(cloud.endpoints["pid"])
"""


def test_workers_of_xdist_have_simulators_of_their_own(tmp_path):
    write(tmp_path, XDIST)
    done = run_pytest(tmp_path, "-p", "xdist.plugin", "-n", "2", "-rP")
    assert done.returncode == 0, done.stdout
    pids = {line for line in done.stdout.splitlines() if line.isdecimal()}
    assert len(pids) == 2


LAZY = """\
import sys


def test_nothing_is_imported_for_a_test_that_wants_no_cloud():
    loaded = {name for name in sys.modules if name.split(".")[0] in ("localsim", "tpuctl")}
    assert loaded == {"localsim", "localsim.testing", "localsim.testing.pytest_plugin"}
    assert not {"aiohttp", "google", "grpc", "asyncio", "http.client"} & set(sys.modules)
"""


def test_the_plugin_costs_nothing_where_it_is_not_used(tmp_path):
    write(tmp_path, LAZY)
    done = run_pytest(tmp_path, "-p", "no:unraisableexception", "-p", "no:threadexception")
    assert done.returncode == 0, done.stdout


def test_an_option_that_does_not_exist_is_told(tmp_path):
    write(
        tmp_path,
        "import pytest\n@pytest.mark.localsim(colour='blue')\ndef test_it(cloud): pass\n",
    )
    done = run_pytest(tmp_path)
    assert done.returncode
    assert "@pytest.mark.localsim" in done.stdout
    assert "colour" in done.stdout


UNITTEST = """\
import unittest

from localsim.testing import CloudTestCase, SimulatorOptions


class StorageTest(CloudTestCase):
    cloud_options = SimulatorOptions(isolation="process", offline=True)

    def test_a_bucket(self):
        self.cloud.bucket("always-the-same-name")

    def test_the_same_bucket(self):
        self.cloud.bucket("always-the-same-name")


if __name__ == "__main__":
    unittest.main()
"""


def test_a_test_case_of_unittest(tmp_path):
    write(tmp_path, UNITTEST)
    done = subprocess.run(
        [sys.executable, "test_it.py"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "Ran 2 tests" in done.stderr
