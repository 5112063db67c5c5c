"""Access tokens as calls need them: renewed before they are used, in the time a call has."""

import pytest
from google.auth.exceptions import RefreshError, TransportError

from tpuctl.api.credentials import Tokens, tokens
from tpuctl.config import Context
from tpuctl.errors import CredentialsError, TransientError
from tpuctl.network_policy import TOKEN_TIMEOUT_S


class Source:
    """Credentials of google.auth that have no token until they are asked for one."""

    def __init__(self, failure=None):
        self.failure = failure
        self.token = None
        self.renewals = 0
        self.timeouts = []

    @property
    def valid(self):
        return self.token is not None

    def refresh(self, request):
        self.renewals += 1
        self.timeouts.append(request)
        if self.failure:
            raise self.failure
        self.token = f"t{self.renewals}"

    def apply(self, headers):
        headers["authorization"] = f"Bearer {self.token}"


@pytest.fixture(autouse=True)
def _no_network(monkeypatch):
    monkeypatch.setattr("tpuctl.api.credentials._request", lambda _session, timeout_s: timeout_s)


def applied(tokens, timeout_s=None):
    headers = {}
    tokens.apply(headers, timeout_s)
    return headers


def test_a_token_is_used_until_it_is_no_longer_valid():
    source = Source()
    tokens = Tokens(source, "hint")
    assert applied(tokens) == applied(tokens) == {"authorization": "Bearer t1"}
    source.token = None
    assert applied(tokens) == {"authorization": "Bearer t2"}


@pytest.mark.parametrize(
    ("timeout_s", "waited_s"), [(None, TOKEN_TIMEOUT_S), (5.0, 5.0), (600.0, TOKEN_TIMEOUT_S)]
)
def test_a_call_never_waits_longer_than_it_may(timeout_s, waited_s):
    source = Source()
    applied(Tokens(source, "hint"), timeout_s)
    assert source.timeouts == [waited_s]


def test_refused_credentials_are_no_reason_to_try_again():
    tokens = Tokens(Source(RefreshError("invalid_grant: Invalid JWT Signature.", {})), "fix it")
    with pytest.raises(CredentialsError, match="Invalid JWT Signature") as caught:
        applied(tokens)
    assert (caught.value.exit_code, caught.value.hint) == (20, "fix it")


def test_a_key_file_that_is_not_there_is_named(tmp_path):
    path = str(tmp_path / "key.json")
    with pytest.raises(CredentialsError, match="No such file or directory") as caught:
        tokens(Context("lab", "demo", "us-west4-a", "b", credentials=path))
    assert caught.value.hint == f"check the key file {path}"


def test_a_token_endpoint_that_is_silent_is_transient():
    with pytest.raises(TransientError, match="cannot get an access token: no route") as caught:
        applied(Tokens(Source(TransportError("no route")), "hint"))
    assert caught.value.hint == "check the network, then run it again"
    with pytest.raises(TransientError) as caught:
        applied(Tokens(Source(TransportError("[SSL: CERTIFICATE_VERIFY_FAILED]")), "hint"))
    assert "REQUESTS_CA_BUNDLE" in caught.value.hint
