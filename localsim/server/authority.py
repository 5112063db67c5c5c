"""The files of the TLS ports: a CA, the server's key, and the service accounts' keys.

    STATE_DIR/google/ca.pem         whom clients have to trust
                     server.pem     the key and certificate of every TLS port
                     tokens.key     what access tokens are signed with
                     NAME.json      a service account's key, as Google hands them out

The CA's own key is never written: it signs one certificate and nothing after that.
"""

import datetime
import hashlib
import ipaddress
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from localsim.accounts import email
from localsim.state_directory import load_or_create_secret, write_private

CERTIFICATE_LIFETIME = datetime.timedelta(days=365)
RENEW_BEFORE = datetime.timedelta(days=30)
CLOCK_SKEW = datetime.timedelta(days=1)
"""Clocks of clients may be behind."""
ACCOUNT_KEY_BITS = 2048
LOOPBACK_NAMES = (
    x509.DNSName("localhost"),
    x509.IPAddress(ipaddress.ip_address("127.0.0.1")),
    x509.IPAddress(ipaddress.ip_address("::1")),
)


@dataclass(frozen=True, slots=True)
class Authority:
    """The files of the directory `google`, and the public keys in them."""

    ca: Path
    server: Path
    token_secret: str = field(repr=False)
    keys: Mapping[str, Path]
    """Account name -> key file."""
    public_keys: Mapping[str, Any]
    """Account name -> rsa.RSAPublicKey."""


def establish(directory: Path, project: str, token_uri: str, accounts: Iterable[str]) -> Authority:
    """Create the files that are missing or expire soon; keys stay. Raises OSError, ValueError."""
    directory.mkdir(mode=0o700, exist_ok=True)
    ca, server = directory / "ca.pem", directory / "server.pem"
    if not _is_usable(ca, server):
        _certify(ca, server)
    files = {name: directory / f"{name}.json" for name in accounts}
    return Authority(
        ca,
        server,
        load_or_create_secret(directory / "tokens.key"),
        files,
        {name: _account(file, name, project, token_uri) for name, file in files.items()},
    )


def _is_usable(ca: Path, server: Path) -> bool:
    """Whether the CA signed the certificate and both stay valid for a while."""
    try:
        signer = x509.load_pem_x509_certificate(ca.read_bytes())
        signed = x509.load_pem_x509_certificate(server.read_bytes())
        serialization.load_pem_private_key(server.read_bytes(), password=None)
        signed.verify_directly_issued_by(signer)
    except (OSError, ValueError, TypeError, InvalidSignature):
        return False
    soon = datetime.datetime.now(datetime.UTC) + RENEW_BEFORE
    return min(signer.not_valid_after_utc, signed.not_valid_after_utc) > soon


def _certify(ca: Path, server: Path) -> None:
    """Create a CA that signs the server's certificate; its key is not kept."""
    ca_key, server_key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    issuer = _name("localsim CA")
    authority = (
        _certificate(issuer, issuer, ca_key.public_key())
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs_certificates=True), critical=True)
        .sign(ca_key, hashes.SHA256())
    )
    certificate = (
        _certificate(_name("localsim"), issuer, server_key.public_key())
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectAlternativeName(LOOPBACK_NAMES), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(ca_key.public_key()), critical=False
        )
        .sign(ca_key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    write_private(server, certificate.public_bytes(pem) + _private_pem(server_key))
    write_private(ca, authority.public_bytes(pem))


def _certificate(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - CLOCK_SKEW)
        .not_valid_after(now + CERTIFICATE_LIFETIME)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


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


def _private_pem(key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
