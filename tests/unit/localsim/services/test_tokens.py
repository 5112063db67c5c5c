"""Access tokens: given for a signed assertion, believed while they are whole and young."""

import json

import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from localsim.rules.model.cloud_errors import CloudError, Code
from localsim.services.auth import jwt
from localsim.services.auth.tokens import CLOUD_PLATFORM, LIFE_S, AccessTokens, GrantError

NOW_S = 1_800_000_000.0
URI = "https://127.0.0.1:1/token"
EMAIL = "admin@p.iam.gserviceaccount.com"
KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)
OTHER_KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)
TPU = "tpu.googleapis.com"


class Times:
    """The simulated time."""

    now_s = NOW_S


@pytest.fixture
def times():
    return Times()


@pytest.fixture
def tokens(times):
    return AccessTokens(
        "secret", {EMAIL: "admin"}, {EMAIL: KEY.public_key()}, URI, lambda: times.now_s
    )


def assertion(key=KEY, header=None, **changes):
    """What a client signs; a claim changed to None is left out."""
    claims = {
        "iss": EMAIL,
        "aud": URI,
        "scope": CLOUD_PLATFORM,
        "iat": NOW_S,
        "exp": NOW_S + LIFE_S,
    }
    claims = {name: value for name, value in {**claims, **changes}.items() if value is not None}
    parts = ({"alg": "RS256", "typ": "JWT", **(header or {})}, claims)
    text = ".".join(jwt.encode_base64url(json.dumps(part).encode()) for part in parts)
    signature = key.sign(text.encode(), padding.PKCS1v15(), hashes.SHA256())
    return f"{text}.{jwt.encode_base64url(signature)}"


def token(tokens, **changes):
    return tokens.granted(assertion(**changes), real_now_s=NOW_S)["access_token"]


def refusal(tokens, authorization, service=TPU):
    with pytest.raises(CloudError) as caught:
        tokens.caller(authorization, service, "m")
    return caught.value.code, caught.value.info.reason


def test_a_signed_assertion_becomes_a_token_of_its_account(tokens):
    reply = tokens.granted(assertion(), real_now_s=NOW_S)
    assert (reply["token_type"], reply["expires_in"]) == ("Bearer", LIFE_S - 1)
    assert tokens.caller(f"Bearer {reply['access_token']}", TPU, "m") == "admin"


def test_google_auth_names_googles_own_endpoint_wherever_it_is_sent(tokens):
    signed = assertion(aud="https://oauth2.googleapis.com/token")
    assert tokens.granted(signed, real_now_s=NOW_S)["access_token"]


def test_where_time_is_faster_a_token_is_renewed_sooner(tokens, times):
    fast = AccessTokens(
        tokens.secret, tokens.emails, tokens.keys, URI, lambda: times.now_s, time_scale=60.0
    )
    assert fast.granted(assertion(), real_now_s=NOW_S)["expires_in"] == 59


@pytest.mark.parametrize(
    ("changes", "error", "words"),
    [
        ({"key": OTHER_KEY}, "invalid_grant", "Invalid JWT Signature."),
        ({"iss": "x@p.iam.gserviceaccount.com"}, "invalid_grant", "account not found"),
        ({"iss": [EMAIL]}, "invalid_grant", "account not found"),
        ({"aud": "https://127.0.0.1:2/token"}, "invalid_grant", "audience check"),
        ({"aud": None}, "invalid_grant", "audience check"),
        ({"exp": NOW_S - 1, "iat": NOW_S - 100}, "invalid_grant", "short-lived"),
        ({"exp": NOW_S + LIFE_S + 1}, "invalid_grant", "short-lived"),
        ({"iat": NOW_S + 400, "exp": NOW_S + 500}, "invalid_grant", "short-lived"),
        ({"exp": "tomorrow"}, "invalid_grant", "short-lived"),
        ({"exp": 10**400}, "invalid_grant", "short-lived"),
        ({"iat": None}, "invalid_grant", "short-lived"),
        ({"scope": None}, "invalid_scope", "Invalid OAuth scope"),
        ({"scope": " "}, "invalid_scope", "Invalid OAuth scope"),
        ({"header": {"alg": "none"}}, "invalid_grant", "Only RS256"),
        ({"header": {"alg": "HS256"}}, "invalid_grant", "Only RS256"),
    ],
)
def test_other_assertions_are_refused(tokens, changes, error, words):
    with pytest.raises(GrantError) as caught:
        tokens.granted(assertion(**changes), real_now_s=NOW_S)
    assert caught.value.error == error
    assert words in caught.value.description


@pytest.mark.parametrize(
    "text",
    ["", "a", "a.b", "a.b.c", "....", "e30.e30", "e30.W10.x", "é.é.é", "[" * 9000, "e30.e30.e30"],
)
def test_what_is_no_assertion_is_refused_without_repeating_it(tokens, text):
    with pytest.raises(GrantError) as caught:
        tokens.granted(text)
    assert caught.value.error == "invalid_grant"
    assert caught.value.description in (
        "Invalid JWT: the assertion cannot be read.",
        "Invalid JWT: Only RS256 is supported.",
    )


def test_no_secret_shows_in_what_is_printed(tokens):
    assert "secret='" not in repr(tokens)


def test_a_token_outlives_a_restart(tokens, times):
    given = token(tokens)
    again = AccessTokens("secret", {EMAIL: "admin"}, {}, URI, lambda: times.now_s)
    assert again.caller(f"Bearer {given}", TPU, "m") == "admin"


def test_a_token_of_another_server_is_none(tokens, times):
    other = AccessTokens("other", tokens.emails, tokens.keys, URI, lambda: times.now_s)
    given = f"Bearer {token(other)}"
    assert refusal(tokens, given) == (Code.UNAUTHENTICATED, "ACCESS_TOKEN_TYPE_UNSUPPORTED")


def test_a_token_ends_with_the_simulated_hour(tokens, times):
    given = f"Bearer {token(tokens)}"
    times.now_s += LIFE_S - 1
    assert tokens.caller(given, TPU, "m") == "admin"
    times.now_s += 1
    assert refusal(tokens, given) == (Code.UNAUTHENTICATED, "ACCESS_TOKEN_EXPIRED")


@pytest.mark.parametrize("header", [None, ""])
def test_no_token_is_missing(tokens, header):
    assert refusal(tokens, header) == (Code.UNAUTHENTICATED, "CREDENTIALS_MISSING")


def test_every_changed_letter_of_a_token_is_noticed(tokens):
    given = token(tokens)
    for place in range(len(given)):
        changed = given[:place] + ("A" if given[place] != "A" else "B") + given[place + 1 :]
        code, _ = refusal(tokens, f"Bearer {changed}")
        assert code == Code.UNAUTHENTICATED


@pytest.mark.parametrize(
    "header",
    ["Bearer", "Bearer x", "Basic YWRtaW4=", "Bearer \x00é", "Bearer ya29.l.\udcff.\udcfe"],
)
def test_what_is_no_token_is_refused(tokens, header):
    assert refusal(tokens, header) == (Code.UNAUTHENTICATED, "ACCESS_TOKEN_TYPE_UNSUPPORTED")


def test_a_token_without_the_scope_may_nothing(tokens):
    given = f"Bearer {token(tokens, scope='https://www.googleapis.com/auth/devstorage.read_write')}"
    assert refusal(tokens, given) == (Code.PERMISSION_DENIED, "ACCESS_TOKEN_SCOPE_INSUFFICIENT")
    assert tokens.caller(given, "storage.googleapis.com", "m") == "admin"


def test_an_account_may_sign_for_itself_as_the_client_libraries_do(tokens, monkeypatch):
    monkeypatch.setattr("localsim.services.auth.tokens.time.time", lambda: NOW_S)
    signed = assertion(aud=f"https://{TPU}/", scope=None)
    assert tokens.caller(f"Bearer {signed}", TPU, "m") == "admin"
    assert tokens.caller(f"Bearer {assertion(aud=None)}", TPU, "m") == "admin"
    elsewhere = assertion(aud="https://pubsub.googleapis.com/", scope=None)
    code, _ = refusal(tokens, f"Bearer {elsewhere}")
    assert code == Code.PERMISSION_DENIED
    forged = assertion(key=OTHER_KEY, aud=f"https://{TPU}/")
    assert refusal(tokens, f"Bearer {forged}")[0] == Code.UNAUTHENTICATED
    late = assertion(aud=f"https://{TPU}/", iat=NOW_S - 100, exp=NOW_S - 1)
    assert refusal(tokens, f"Bearer {late}") == (Code.UNAUTHENTICATED, "ACCESS_TOKEN_EXPIRED")


@pytest.mark.parametrize(
    "changes",
    [
        {"exp": NOW_S + LIFE_S + 1},
        {"exp": float("nan")},
        {"exp": float("inf")},
        {"exp": "inf"},
        {"iat": NOW_S + 3600, "exp": NOW_S + 7200},
        {"iat": float("nan")},
    ],
)
def test_what_an_account_signs_for_itself_lives_an_hour_at_most(tokens, monkeypatch, changes):
    monkeypatch.setattr("localsim.services.auth.tokens.time.time", lambda: NOW_S)
    signed = f"Bearer {assertion(aud=None, **changes)}"
    assert refusal(tokens, signed) == (Code.UNAUTHENTICATED, "ACCESS_TOKEN_TYPE_UNSUPPORTED")


def test_an_assertion_for_the_token_endpoint_is_no_token_itself(tokens, monkeypatch):
    monkeypatch.setattr("localsim.services.auth.tokens.time.time", lambda: NOW_S)
    assert refusal(tokens, f"Bearer {assertion(aud=URI)}")[0] == Code.PERMISSION_DENIED
