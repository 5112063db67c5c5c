"""What every Python on a worker runs first: no trace of it in programs that open no chips."""

import ast
import importlib.util

import pytest
from clouds import MATRIX

from system.localsim.guest.guest_programs import GUEST, package, run_python

needs_jax = pytest.mark.skipif(
    importlib.util.find_spec("jax") is None, reason="JAX is not installed"
)


def test_it_loads_nothing_but_what_python_itself_has_loaded():
    program = "print(*sorted(sys.modules))"
    with_guest = run_python("-S", "-c", f"import os, sys, sitecustomize\n{program}")
    without = run_python("-S", "-c", f"import os, sys\n{program}")
    added = set(with_guest.stdout.split()) - set(without.stdout.split())
    assert added, with_guest.stderr
    assert added <= {"sitecustomize", "__future__"}, with_guest.stderr


def test_only_its_own_names_come_before_those_of_programs():
    names = {path.stem for path in GUEST.iterdir() if not path.name.startswith("__")}
    assert names == {"sitecustomize", "localsim_chips"}


def test_the_sitecustomize_that_was_there_before_runs_and_is_the_one_that_is_seen(tmp_path):
    (tmp_path / "sitecustomize.py").write_text("print('mine')\n")
    ended = run_python("-c", "import sitecustomize as s; print(s.__file__)", path=[tmp_path])
    assert ended.stdout.split() == ["mine", str(tmp_path / "sitecustomize.py")]


def test_it_runs_on_the_oldest_python_of_a_tpu_vm():
    for path in GUEST.rglob("*.py"):
        ast.parse(path.read_text(), str(path), feature_version=(3, 8))


@needs_jax
def test_where_there_are_no_chips_jax_runs_as_ever():
    program = "import jax; print(jax.jit(lambda x: x + 1)(1))"
    ended = run_python("-c", program, LOCALSIM_DEBUG="1")
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "2\n", "")


@needs_jax
@pytest.mark.parametrize(
    "door",
    [
        "127.0.0.1:1",
        pytest.param("nowhere", marks=MATRIX),
        pytest.param("localhost:x", marks=MATRIX),
    ],
)
def test_a_door_that_nobody_opens_breaks_no_program_and_is_noted_on_request(door):
    program = "import jax; print(jax.device_count())"
    quiet = run_python("-c", program, LOCALSIM_CHIPS=door)
    assert (quiet.stdout, quiet.stderr) == ("1\n", "")


def test_a_jax_that_makes_its_backends_otherwise_is_noted_once_on_request(tmp_path):
    package(tmp_path, {"jax/_src/xla_bridge.py": "def backends(): return 'mine'\n"})
    program = "from jax._src import xla_bridge as x; print(x.backends(), x.__loader__.exec_module)"
    ended = run_python("-c", program, path=[tmp_path], LOCALSIM_DEBUG="1")
    assert ended.stdout.startswith("mine <bound method")
    assert ended.stderr.count("makes its backends in another way") == 1
    assert run_python("-c", program, path=[tmp_path]).stderr == ""
