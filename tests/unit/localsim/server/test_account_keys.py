"""Keys of service accounts: made once and kept private."""

import json
import shutil
import stat

import pytest

from localsim.server import account_keys

ACCOUNTS = ("admin", "viewer")


def establish(directory, uri="https://127.0.0.1:1/token"):
    return account_keys.establish(directory / "google", "p", uri, ACCOUNTS)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """What was made once; a key takes a tenth of a second."""
    directory = tmp_path_factory.mktemp("made")
    establish(directory)
    return directory


@pytest.fixture
def directory(made, tmp_path):
    """A directory of a simulator that has started before."""
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    return tmp_path


def contents(directory):
    return {path.name: path.read_bytes() for path in (directory / "google").iterdir()}


def test_all_of_it_is_made_once_and_only_its_owner_reads_it(tmp_path):
    found = establish(tmp_path)
    made = contents(tmp_path)
    assert sorted(made) == ["admin.json", "tokens.key", "viewer.json"]
    modes = {stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "google").iterdir()}
    assert modes == {0o600}
    assert establish(tmp_path).token_secret == found.token_secret
    assert contents(tmp_path) == made


def test_a_key_file_is_as_google_hands_them_out(directory):
    key = json.loads(establish(directory).files["admin"].read_text())
    assert key["type"] == "service_account"
    assert key["client_email"] == "admin@p.iam.gserviceaccount.com"
    assert key["private_key"].startswith("-----BEGIN PRIVATE KEY-----\n")


def test_a_key_moves_with_the_port_and_stays_the_same_key(directory):
    before = json.loads(establish(directory).files["admin"].read_text())
    after = json.loads(establish(directory, "https://127.0.0.1:2/token").files["admin"].read_text())
    assert after["token_uri"] == "https://127.0.0.1:2/token"
    assert after["private_key"] == before["private_key"]


def test_a_damaged_key_file_is_no_reason_to_make_another(directory):
    establish(directory).files["admin"].write_text("{")
    with pytest.raises(ValueError, match="Expecting"):
        establish(directory)
