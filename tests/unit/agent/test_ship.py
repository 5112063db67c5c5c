"""The archive of a job's agent: modules, and what this Python makes of them."""

import zipfile
import zipimport

import pytest

from tpuctl.agent import ship

NAME = "tpuctl.agent.job.launch"


@pytest.fixture
def packed(tmp_path):
    path = tmp_path / ship.JOB_ARCHIVE
    path.write_bytes(ship.job_archive())
    return path


def code_at(path):
    """What Python runs for a module of an archive, found package by package as imports do."""
    place, _, name = NAME.rpartition(".")
    importer = zipimport.zipimporter(f"{path}/{place.replace('.', '/')}")
    return importer.find_spec(NAME).loader.get_code(NAME)


def test_every_module_is_there_compiled_beside_its_source(packed):
    with zipfile.ZipFile(packed) as archive:
        names = set(archive.namelist())
    sources = {name for name in names if name.endswith(".py")}
    assert names - sources == {f"{name}c" for name in sources}
    assert "tpuctl/agent/job/agent.py" in sources


def test_a_python_of_this_version_compiles_nothing(packed):
    assert code_at(packed).co_filename == "tpuctl/agent/job/launch.py"


def test_a_python_of_another_version_compiles_the_source(packed, tmp_path):
    """Which is how that Python sees what this one has compiled."""
    with zipfile.ZipFile(packed) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    compiled = {name: b"cc" + data[2:] for name, data in files.items() if name.endswith("c")}
    other = tmp_path / "other.zip"
    other.write_bytes(ship.zipped({**files, **compiled}))
    assert code_at(other).co_filename.startswith(str(other))
