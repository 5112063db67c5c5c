"""The keys of the service accounts, for clients that bring credentials over TLS.

STATE_DIR/google/tokens.key     what access tokens are signed with
                 NAME.json      a service account's key, as Google hands them out
"""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from localsim.accounts import email
from localsim.state_directory import load_or_create_secret, write_private

ACCOUNT_KEY_BITS = 2048


@dataclass(frozen=True, slots=True)
class AccountKeys:
    """The files of the accounts, and the public keys in them."""

    token_secret: str = field(repr=False)
    files: Mapping[str, Path]
    """Account name -> key file."""
    public_keys: Mapping[str, Any]
    """Account name -> rsa.RSAPublicKey."""


def establish(
    directory: Path, project: str, token_uri: str, accounts: Iterable[str]
) -> AccountKeys:
    """Create the files that are missing; keys stay. Raises OSError, ValueError."""
    directory.mkdir(mode=0o700, exist_ok=True)
    files = {name: directory / f"{name}.json" for name in accounts}
    return AccountKeys(
        load_or_create_secret(directory / "tokens.key"),
        files,
        {name: _account(file, name, project, token_uri) for name, file in files.items()},
    )


def _account(file: Path, name: str, project: str, token_uri: str) -> rsa.RSAPublicKey:
    """The public key of an account; its file names where tokens are now to be had."""
    document = json.loads(file.read_text("ascii")) if file.exists() else {}
    text = document.get("private_key") or _private_pem(
        rsa.generate_private_key(public_exponent=65537, key_size=ACCOUNT_KEY_BITS)
    ).decode("ascii")
    key = serialization.load_pem_private_key(text.encode("ascii"), password=None)
    if not isinstance(key, rsa.RSAPrivateKey):
        raise ValueError(f"{file} holds no RSA key")
    public = key.public_key().public_bytes(
        serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    fingerprint = hashlib.sha256(public).digest()
    wanted = {
        "type": "service_account",
        "project_id": project,
        "private_key_id": fingerprint.hex()[:40],
        "private_key": text,
        "client_email": email(name, project),
        "client_id": str(int.from_bytes(fingerprint[:8]))[:21],
        "auth_uri": token_uri.replace("/token", "/auth"),
        "token_uri": token_uri,
        "universe_domain": "googleapis.com",
    }
    if document != wanted:
        write_private(file, json.dumps(wanted, indent=2).encode("ascii"))
    return key.public_key()


def _private_pem(key: rsa.RSAPrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
