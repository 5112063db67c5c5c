"""A state directory survives being killed at any point of its making."""

import json
import os

import pytest

from localsim.state_directory import ServeError, claim


def claimed(path):
    state = claim(path)
    os.close(state.lock)
    return state


def test_a_new_directory_is_private_and_marked(tmp_path):
    state = claimed(tmp_path / "new")
    assert state.path.stat().st_mode & 0o777 == 0o700
    assert json.loads((state.path / "localsim.json").read_text()) == {"schema": 1}
    assert (state.path / "lock").read_text() == str(os.getpid())


def test_a_lock_without_a_marker_is_an_unfinished_beginning(tmp_path):
    (tmp_path / "lock").touch()
    claimed(tmp_path)


def test_an_empty_token_is_replaced_and_a_token_is_kept(tmp_path):
    state = claimed(tmp_path)
    (tmp_path / "control.token").touch()
    token = state.token()
    assert len(token) > 30
    assert state.token() == token
    assert (tmp_path / "control.token").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("ports", ["", "[]", '{"storage": "x"}', "nonsense"])
def test_damaged_ports_are_forgotten(tmp_path, ports):
    state = claimed(tmp_path)
    (tmp_path / "ports.json").write_text(ports)
    assert state.remembered_ports() == {}


@pytest.mark.parametrize(
    ("marker", "code"), [("", 62), ('{"schema": "x"}', 62), ('{"schema": 2}', 62), ("[]", 62)]
)
def test_a_damaged_or_newer_marker_is_refused(tmp_path, marker, code):
    (tmp_path / "localsim.json").write_text(marker)
    with pytest.raises(ServeError) as refused:
        claimed(tmp_path)
    assert refused.value.exit_code == code


def test_somebody_else_s_directory_is_refused_and_left_alone(tmp_path):
    (tmp_path / "precious").write_text("x")
    with pytest.raises(ServeError) as refused:
        claimed(tmp_path)
    assert refused.value.exit_code == 80
    assert [path.name for path in tmp_path.iterdir()] == ["precious"]
