"""Keys and certificates: made once, kept private, renewed before they expire."""

import datetime
import json
import stat

import pytest

from localsim.server import authority

ACCOUNTS = ("admin", "viewer")


def establish(directory, uri="https://127.0.0.1:1/token"):
    return authority.establish(directory / "google", "p", uri, ACCOUNTS)


def contents(directory):
    return {path.name: path.read_bytes() for path in (directory / "google").iterdir()}


def test_all_of_it_is_made_once_and_only_its_owner_reads_it(tmp_path):
    found = establish(tmp_path)
    made = contents(tmp_path)
    assert sorted(made) == ["admin.json", "ca.pem", "server.pem", "tokens.key", "viewer.json"]
    modes = {stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "google").iterdir()}
    assert modes == {0o600}
    assert establish(tmp_path).token_secret == found.token_secret
    assert contents(tmp_path) == made


def test_a_key_file_is_as_google_hands_them_out(tmp_path):
    key = json.loads(establish(tmp_path).keys["admin"].read_text())
    assert key["type"] == "service_account"
    assert key["client_email"] == "admin@p.iam.gserviceaccount.com"
    assert key["private_key"].startswith("-----BEGIN PRIVATE KEY-----\n")


def test_a_key_moves_with_the_port_and_stays_the_same_key(tmp_path):
    before = json.loads(establish(tmp_path).keys["admin"].read_text())
    after = json.loads(establish(tmp_path, "https://127.0.0.1:2/token").keys["admin"].read_text())
    assert after["token_uri"] == "https://127.0.0.1:2/token"
    assert after["private_key"] == before["private_key"]


def test_certificates_are_made_anew_before_they_expire(tmp_path, monkeypatch):
    before = establish(tmp_path).ca.read_bytes()
    monkeypatch.setattr(
        authority, "RENEW_BEFORE", authority.CERTIFICATE_LIFETIME + datetime.timedelta(days=1)
    )
    assert establish(tmp_path).ca.read_bytes() != before


@pytest.mark.parametrize("name", ["ca.pem", "server.pem"])
def test_halves_that_do_not_fit_are_made_anew(tmp_path, name):
    establish(tmp_path)
    (tmp_path / "two").mkdir()
    establish(tmp_path / "two")
    (tmp_path / "google" / name).write_bytes((tmp_path / "two" / "google" / name).read_bytes())
    establish(tmp_path)
    assert contents(tmp_path)[name] != contents(tmp_path / "two")[name]


def test_a_damaged_key_file_is_no_reason_to_make_another(tmp_path):
    establish(tmp_path).keys["admin"].write_text("{")
    with pytest.raises(ValueError, match="Expecting"):
        establish(tmp_path)
