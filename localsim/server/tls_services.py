"""The TLS ports: the same APIs for clients that bring credentials.

Loaded only where it is asked for: nobody else pays for certificates and keys.
"""

import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from localsim import accounts
from localsim.loopback import LOOPBACK
from localsim.server import account_keys
from localsim.server.account_keys import AccountKeys
from localsim.server.certificates import Certificates, ensure_certificates
from localsim.services.auth.iam import ACCOUNTS
from localsim.services.auth.oauth2 import PATH
from localsim.services.auth.tokens import AccessTokens
from localsim.services.storage.grpc.shared_port import HTTP_1, HTTP_2
from localsim.state_directory import ServeError, StateDirectory


@dataclass(frozen=True, slots=True)
class TlsServices:
    """The certificate, keys and token service of the TLS ports."""

    certificates: Certificates
    keys: AccountKeys
    tokens: AccessTokens
    project: str
    tls: ssl.SSLContext
    grpc_tls: ssl.SSLContext
    """For a port where gRPC is spoken too."""

    @property
    def certificate(self) -> bytes:
        """The server's certificate and its key."""
        return self.certificates.server.read_bytes()

    def endpoints(self, ports: Mapping[str, int]) -> dict[str, Any]:
        """The value of `google` in the line of endpoints."""
        keys = {name: str(path) for name, path in self.keys.files.items()}
        return {
            "tpu": f"{LOOPBACK}:{ports['google_tpu']}",
            "tpu_rest": f"https://{LOOPBACK}:{ports['google_tpu_rest']}",
            "storage": f"https://{LOOPBACK}:{ports['google_storage']}",
            "token": token_uri(ports),
            "ca": str(self.certificates.ca),
            "keys": keys,
        }


def open_tls_services(
    state: StateDirectory,
    ports: Mapping[str, int],
    *,
    project: str,
    now: Callable[[], float],
    time_scale: float,
) -> TlsServices:
    """Create or read the keys; raises ServeError."""
    uri = token_uri(ports)
    try:
        certificates = ensure_certificates(state.path / "google")
        files = account_keys.establish(state.path / "google", project, uri, ACCOUNTS)
    except (OSError, ValueError, AttributeError) as error:
        sentence = f"cannot use the keys in {state.path / 'google'}: {type(error).__name__}"
        raise ServeError(sentence, 62) from error
    emails = {accounts.email(name, project): name for name in ACCOUNTS}
    tls = certificates.server_context()
    tokens = AccessTokens(
        secret=files.token_secret,
        emails=emails,
        keys={address: files.public_keys[name] for address, name in emails.items()},
        audience=uri,
        now=now,
        time_scale=time_scale,
    )
    grpc_tls = certificates.server_context()
    grpc_tls.set_alpn_protocols([HTTP_1, HTTP_2])
    return TlsServices(certificates, files, tokens, project, tls, grpc_tls)


def token_uri(ports: Mapping[str, int]) -> str:
    """The URL at which service accounts get their tokens."""
    return f"https://{LOOPBACK}:{ports['google_token']}{PATH}"
