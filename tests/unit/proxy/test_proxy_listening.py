"""Where a proxy may listen, and what it needs there."""

import pytest

from tpuctl.errors import NotFoundError, RefusedError, UsageError
from tpuctl.operations.services.proxy_listening import (
    ListenAddress,
    parse_listen_address,
    read_token,
    require_token,
    tls_context,
)
from tpuctl.proxy.access_control import host_name

GOOD = {
    "8000": ("127.0.0.1", 8000),
    "localhost:0": ("127.0.0.1", 0),
    "0.0.0.0:8443": ("0.0.0.0", 8443),  # noqa: S104 - only parsed
    "[::1]:80": ("::1", 80),
    "[::]:80": ("::", 80),
}
BAD = (
    "",
    ":",
    "host:80",
    "127.0.0.1",
    "127.0.0.1:",
    "1:65536",
    "127.0.0.1:-1",
    "127.0.0.1:٣",
    "::1",
)


def test_addresses_are_read():
    assert {text: parse_listen_address(text) for text in GOOD} == {
        text: ListenAddress(*wanted) for text, wanted in GOOD.items()
    }
    for text in BAD:
        with pytest.raises(UsageError, match="--listen"):
            parse_listen_address(text)
    assert ListenAddress("::1", 80).url(is_tls=True) == "https://[::1]:80"


def test_a_token_is_needed_beyond_loopback():
    for text in GOOD:
        address = parse_listen_address(text)
        require_token(address, "t" * 16)
        if address.is_loopback:
            require_token(address, None)
        else:
            with pytest.raises(RefusedError, match="no token"):
                require_token(address, None)
        with pytest.raises(RefusedError, match="16"):
            require_token(address, "t" * 15)


def test_a_token_is_read_from_a_file_that_nobody_else_reads(tmp_path):
    file = tmp_path / "token"
    with pytest.raises(NotFoundError, match="--token-file"):
        read_token(file)
    file.write_text(" secret \n")
    file.chmod(0o640)
    with pytest.raises(RefusedError, match="can be read by others"):
        read_token(file)
    file.chmod(0o600)
    assert read_token(file) == "secret"


def test_a_certificate_needs_its_key(tmp_path):
    file = tmp_path / "cert.pem"
    assert tls_context(None, None) is None
    with pytest.raises(UsageError, match="belong together"):
        tls_context(file, None)
    with pytest.raises(NotFoundError, match="--tls-cert"):
        tls_context(file, file)
    file.write_text("nothing")
    with pytest.raises(UsageError, match="are not a certificate"):
        tls_context(file, file)


def test_the_name_of_a_host_header():
    named = {"LOCALHOST:8": "localhost", "[::1]:8": "[::1]", "[::1]": "[::1]", "a": "a", "": ""}
    assert {text: host_name(text) for text in named} == named
