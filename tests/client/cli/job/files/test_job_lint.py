"""`tpuctl job lint`: job files are checked before there is a context."""

import json

import pytest

GOOD = "name: digits\nresources: {accelerators: v5litepod-4}\nrun: echo hello\n"


@pytest.fixture
def files(tmp_path, monkeypatch):
    """One right job file and three that are wrong, in the working directory."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "good.yaml").write_text(GOOD)
    (tmp_path / "key.yaml").write_text(GOOD + "nam: x\n")
    (tmp_path / "rehearse.yaml").write_text(GOOD + "rehearse: {accelerator: v5litepod-4}\n")


def test_each_wrong_file_is_a_line(offline, files):
    result = offline("job", "lint", "key.yaml", "good.yaml", "none.yaml", "rehearse.yaml")
    assert result.code == 2
    assert result.out.splitlines() == [
        "key.yaml: unknown key 'nam' (line 4); did you mean 'name'?",
        "none.yaml: there is no file none.yaml",
        "rehearse.yaml: unknown key 'accelerator' in rehearse (line 4); "
        "did you mean 'accelerators'?",
    ]
    assert result.err == "error: 3 of 4 job files cannot be used\n"


def test_right_files_are_accepted_in_silence(offline, files):
    result = offline("job", "lint", "good.yaml")
    assert (result.code, result.out, result.err) == (0, "", "")


def test_a_script_gets_the_hint_as_well(offline, files):
    result = offline("job", "lint", "good.yaml", "key.yaml", "-o", "json")
    [error] = json.loads(result.out)
    assert (result.code, error["file"]) == (2, "key.yaml")
    assert error["hint"].startswith("known keys: budget, ")
