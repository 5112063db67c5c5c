"""The certificate of the TLS ports: made once, kept private, renewed before it expires."""

import datetime
import stat

import pytest

from localsim.server import certificates
from localsim.server.certificates import ensure_certificates


def test_both_files_are_made_once_and_only_their_owner_reads_them(tmp_path):
    made = ensure_certificates(tmp_path / "google")
    contents = made.ca.read_bytes(), made.server.read_bytes()
    assert {stat.S_IMODE(path.stat().st_mode) for path in made.ca.parent.iterdir()} == {0o600}
    again = ensure_certificates(tmp_path / "google")
    assert (again.ca.read_bytes(), again.server.read_bytes()) == contents


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("RENEW_BEFORE", certificates.CERTIFICATE_LIFETIME + datetime.timedelta(days=1)),
        ("NAMES", certificates.NAMES[:-1]),
    ],
    ids=["expires soon", "for other names"],
)
def test_they_are_made_anew_in_time(tmp_path, monkeypatch, name, value):
    before = ensure_certificates(tmp_path).ca.read_bytes()
    monkeypatch.setattr(certificates, name, value)
    assert ensure_certificates(tmp_path).ca.read_bytes() != before


@pytest.mark.parametrize("name", ["ca.pem", "server.pem"])
def test_halves_that_do_not_fit_are_made_anew(tmp_path, name):
    ensure_certificates(tmp_path / "one")
    ensure_certificates(tmp_path / "other")
    strange = (tmp_path / "other" / name).read_bytes()
    (tmp_path / "one" / name).write_bytes(strange)
    ensure_certificates(tmp_path / "one")
    assert (tmp_path / "one" / name).read_bytes() != strange
