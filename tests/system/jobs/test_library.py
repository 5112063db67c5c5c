"""The zip that training programs import: what is in it, and that it stands on its own."""

import json
import subprocess
import sys
import zipfile
from io import BytesIO
from pathlib import Path

import pytest

import tpuctl
from tpuctl.agent import ship
from tpuctl.jobs.workers import library

SOURCES = Path(tpuctl.__file__).parent
ROOT = SOURCES.parent


@pytest.fixture(scope="module")
def zipped(tmp_path_factory):
    path = tmp_path_factory.mktemp("worker") / library.ARCHIVE_NAME
    path.write_bytes(library.build_archive())
    return path


def imported(path, *, also: Path | None, program: str):
    """What a program prints as JSON, with the zip on its path and with or without our sources."""
    paths = [str(path), *([str(also)] if also else []), *others()]
    done = subprocess.run(
        [sys.executable, "-S", "-c", f"import json, sys\n{program}"],
        cwd=path.parent, env={"PYTHONPATH": ":".join(paths)},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    return json.loads(done.stdout)


def others() -> list[str]:
    """Where the packages of others are; `-S` keeps an editable tpuctl out of sight."""
    return [each for each in sys.path if each.endswith("site-packages")]


def test_it_holds_what_programs_import_and_no_more(zipped):
    names = zipfile.ZipFile(zipped).namelist()
    rooms = {name.split("/")[1] for name in names}
    modules = {
        "__init__.py",
        "durable_directories.py",
        "errors.py",
        "network_policy.py",
        "page_tokens.py",
        "retry_after.py",
    }
    assert rooms == {*modules, "store", "checkpoint", "serving"}
    assert {"tpuctl/store/__init__.py", "tpuctl/checkpoint/checkpointer.py"} <= set(names)
    for name in set(names) - {"tpuctl/__init__.py"}:
        assert zipfile.ZipFile(zipped).read(name) == (ROOT / name).read_bytes(), name


def test_it_is_small_and_the_same_each_time():
    again = library.build_archive.__wrapped__()
    assert again == library.build_archive()
    assert len(again) < 250_000
    assert {each.date_time for each in zipfile.ZipFile(BytesIO(again)).infolist()} == {
        (1980, 1, 1, 0, 0, 0)
    }


def test_a_supervisor_imports_no_numpy_for_it():
    program = (
        "import sys; from tpuctl.jobs.workers import library; library.build_archive();"
        " sys.exit('numpy' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_a_worker_without_tpuctl_imports_it(zipped):
    program = (
        "import tpuctl.checkpoint as found, tpuctl\n"
        "print(json.dumps([found.__file__, tpuctl.__version__, found.Checkpointer.__name__]))"
    )
    place, version, name = imported(zipped, also=None, program=program)
    assert place == f"{zipped}/tpuctl/checkpoint/__init__.py"
    assert (version, name) == (tpuctl.__version__, "Checkpointer")


def test_the_rest_of_an_installed_tpuctl_is_still_found(zipped):
    program = (
        "import tpuctl.checkpoint, tpuctl.store, tpuctl.perfmodel\n"
        "rooms = tpuctl.checkpoint, tpuctl.store, tpuctl.perfmodel\n"
        "print(json.dumps([each.__file__ for each in rooms]))"
    )
    found = imported(zipped, also=ROOT, program=program)
    assert found == [
        f"{zipped}/tpuctl/checkpoint/__init__.py",
        f"{zipped}/tpuctl/store/__init__.py",
        str(SOURCES / "perfmodel" / "__init__.py"),
    ]


def test_a_tpuctl_that_runs_on_a_worker_finds_what_it_ships_itself(zipped):
    """The same zip, and the agent's files, though `tpuctl` itself is the one in the zip."""
    program = (
        "import base64\n"
        "from tpuctl.models.limits import switch_script\n"
        "from tpuctl.agent import ship\n"
        "from tpuctl.jobs.workers import library\n"
        "files = ship.job_files(with_switch=True)\n"
        "print(json.dumps([sorted(files), len(switch_script.switch_program()),"
        " base64.b64encode(library.build_archive()).decode()]))"
    )
    from tpuctl.jobs.workers import installation
    from tpuctl.models.limits import switch_script

    files, size, archive = imported(zipped, also=ROOT, program=program)
    assert files == sorted(ship.job_files(with_switch=True))
    assert size == len(switch_script.switch_program())
    assert archive == installation.agent_archives()[library.ARCHIVE_NAME]
