"""The certificate of every TLS port, and the CA that signed it, whom clients have to trust.

    STATE_DIR/google/ca.pem         the CA
                     server.pem     the key and certificate of every TLS port

The CA's own key is never written: it signs one certificate and nothing after that. The certificate
is for loopback, for Google's names that lead to the simulator inside the VPC, and for the hosts of
buckets.
"""

import datetime
import ipaddress
import ssl
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from localsim.services.net.google_hosts import BUCKET_HOSTS, SERVICE_OF
from localsim.state_directory import write_private

CERTIFICATE_LIFETIME = datetime.timedelta(days=365)
RENEW_BEFORE = datetime.timedelta(days=30)
CLOCK_SKEW = datetime.timedelta(days=1)
"""Clocks of clients may be behind."""
NAMES = (
    x509.DNSName("localhost"),
    x509.IPAddress(ipaddress.ip_address("127.0.0.1")),
    x509.IPAddress(ipaddress.ip_address("::1")),
    *map(x509.DNSName, (*SERVICE_OF, BUCKET_HOSTS)),
)


@dataclass(frozen=True, slots=True)
class Certificates:
    """The files of the CA and of the server's certificate."""

    ca: Path
    server: Path

    def server_context(self) -> ssl.SSLContext:
        """What a server needs to speak TLS with this certificate; raises OSError."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.load_cert_chain(self.server)
        return context


def ensure_certificates(directory: Path) -> Certificates:
    """Create what is missing, expires soon or lacks a name. Raises OSError, ValueError."""
    directory.mkdir(mode=0o700, exist_ok=True)
    found = Certificates(directory / "ca.pem", directory / "server.pem")
    if not _is_usable(found.ca, found.server):
        _certify(found.ca, found.server)
    return found


def _is_usable(ca: Path, server: Path) -> bool:
    """Whether the CA signed the certificate, for all names, and both stay valid for a while."""
    try:
        signer = x509.load_pem_x509_certificate(ca.read_bytes())
        signed = x509.load_pem_x509_certificate(server.read_bytes())
        serialization.load_pem_private_key(server.read_bytes(), password=None)
        signed.verify_directly_issued_by(signer)
        names = signed.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (OSError, ValueError, TypeError, InvalidSignature, x509.ExtensionNotFound):
        return False
    soon = datetime.datetime.now(datetime.UTC) + RENEW_BEFORE
    is_lasting = min(signer.not_valid_after_utc, signed.not_valid_after_utc) > soon
    return is_lasting and set(names) == set(NAMES)


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
        .add_extension(x509.SubjectAlternativeName(NAMES), critical=False)
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


def _private_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
