"""The Python that the workers get by `--python`, and what they need of it."""

import sys
import venv
from contextlib import closing
from pathlib import Path

import pytest
from clouds import Runner, serve

from localsim.state_directory import ServeError
from localsim.workers.disk import root_plan
from localsim.workers.disk.interpreters import find_interpreter


@pytest.fixture(scope="module")
def environment(tmp_path_factory) -> Path:
    """A virtual environment of this Python, without packages."""
    directory = tmp_path_factory.mktemp("trainer").resolve()
    venv.create(directory, symlinks=True)
    return directory


def test_a_virtual_environment_is_two_directories_and_its_own_program(environment):
    found = find_interpreter(environment / "bin" / "python")
    assert found.executable == environment / "bin" / "python"
    assert found.prefixes == (environment, environment, Path(sys.base_prefix))
    assert found.certifi is None
    assert environment in root_plan.interpreter_prefixes((found,))


@pytest.mark.parametrize(
    ("script", "why"),
    [
        (None, "No such file or directory"),
        ("#!/bin/sh\necho hello", "it does not run as a Python"),
        ("#!/bin/sh\necho '[[3, 9], [], null]'", "workers need Python 3.10 or later"),
        ("#!/bin/sh\necho '[[3, 12], [], null]'", "there is no python3 beside it"),
    ],
)
def test_what_no_worker_could_have_is_refused(tmp_path, script, why):
    path = tmp_path / "python"
    if script is not None:
        path.write_text(script)
        path.chmod(0o755)
    with pytest.raises(ServeError) as refused:
        find_interpreter(path)
    assert (str(refused.value), refused.value.exit_code) == (f"--python {path}: {why}", 2)


def test_programs_on_a_worker_run_in_it_and_the_simulator_does_not(
    environment, isolation, tmp_path
):
    (tmp_path / "link").symlink_to(environment)
    options = ("--isolation", isolation, "--python", str(tmp_path / "link" / "bin" / "python"))
    with closing(serve(tmp_path, *options)) as serving:
        cloud = next(serving)
        tpuctl = Runner(cloud.home)
        assert tpuctl("node", "create", "n1", "-t", "v5litepod-4").code == 0
        program = "import importlib.util as u, sys; print(sys.prefix, u.find_spec('numpy'))"
        shown = tpuctl("node", "exec", "n1", "--", "python3", "-c", program)
        assert (shown.code, shown.out) == (0, f"{environment} None\n")
        (tmp_path / "file").write_text("copied")
        assert tpuctl("node", "cp", str(tmp_path / "file"), "n1:file").code == 0
