"""Whom programs on workers trust about TLS: the machine's authorities, and the simulator's own.

Programs find them in the system's bundle, by variables, or in a copy of certifi.
"""

import shutil
from importlib.util import find_spec
from pathlib import Path

BUNDLE = Path("/etc/ssl/certs/ca-certificates.crt")
"""Where Debian and Ubuntu, which TPU VMs run, keep all authorities in one file."""
VARIABLES = (
    "CLOUDSDK_CORE_CUSTOM_CA_CERTS_FILE",
    "CURL_CA_BUNDLE",
    "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH",
    "HTTPLIB2_CA_CERTS",
    "NODE_EXTRA_CA_CERTS",
    "REQUESTS_CA_BUNDLE",
    "SSL_CERT_FILE",
)
"""What programs read that do not look at the system's bundle by themselves."""
_BUNDLES = (BUNDLE, Path("/etc/pki/tls/certs/ca-bundle.crt"), Path("/etc/ssl/cert.pem"))
_ANCHOR = Path("usr/local/share/ca-certificates/localsim.crt")


def write_bundle(top: Path, authority: Path) -> None:
    """Make the bundle below a worker's root, with one more authority; raises OSError."""
    known = next((path.read_text("utf-8") for path in _BUNDLES if path.is_file()), "")
    own = authority.read_text("ascii")
    bundle = top / BUNDLE.relative_to("/")
    bundle.parent.mkdir(parents=True, exist_ok=True)
    bundle.unlink(missing_ok=True)  # a link elsewhere
    bundle.write_text(f"{known or _certifi_bundle()}\n# localsim\n{own}", "utf-8")
    (top / _ANCHOR).parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(authority, top / _ANCHOR)


def certifi_file() -> Path | None:
    """The bundle of this interpreter's certifi; None without one."""
    found = find_spec("certifi")
    path = Path(found.origin).with_name("cacert.pem") if found and found.origin else None
    return path if path and path.is_file() else None


def _certifi_bundle() -> str:
    path = certifi_file()
    return path.read_text("utf-8") if path else ""
