"""Where a proxy listens, and what it asks for there: an address, a token, a certificate."""

import ipaddress
import os
import resource
import socket
import ssl
import stat
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tpuctl.errors import LocalIOError, RefusedError, UsageError, unreadable_error

FREE_PORT = "let a free port be chosen: --listen 127.0.0.1:0"
SHORTEST_TOKEN = 16
TOKEN_VARIABLE = "TPUCTL_SERVE_TOKEN"  # noqa: S105 - the name of a variable
TOKEN_HINT = f"add --token-file FILE, or set {TOKEN_VARIABLE}"
LARGEST_PORT = 65535
KEEP_ALIVE = {"TCP_KEEPIDLE": 60, "TCP_KEEPINTVL": 15, "TCP_KEEPCNT": 4}
"""A client whose machine is gone is noticed after two minutes."""


@dataclass(frozen=True, slots=True)
class ListenAddress:
    """An address of this machine, and a port; 0 is one that the system chooses."""

    host: str
    port: int

    @property
    def is_loopback(self) -> bool:
        """Whether programs of this machine alone reach it."""
        return ipaddress.ip_address(self.host).is_loopback

    @property
    def is_ipv6(self) -> bool:
        """Whether it is an address of IPv6."""
        return ":" in self.host

    def url(self, *, is_tls: bool) -> str:
        """The URL of what listens here."""
        host = f"[{self.host}]" if self.is_ipv6 else self.host
        return f"{'https' if is_tls else 'http'}://{host}:{self.port}"


def parse_listen_address(text: str) -> ListenAddress:
    """Parse `PORT`, `HOST:PORT` or `[HOST]:PORT`; raises UsageError."""
    host, colon, port = text.rpartition(":")
    if not colon:
        host = "127.0.0.1"
    is_number = port.isascii() and port.isdecimal() and len(port) <= 5
    if not is_number or int(port) > LARGEST_PORT:
        raise _address_error(text)
    name = host.removeprefix("[").removesuffix("]")
    try:
        address = ipaddress.ip_address("127.0.0.1" if name.lower() == "localhost" else name)
    except ValueError:
        raise _address_error(text) from None
    return ListenAddress(str(address), int(port))


def _address_error(text: str) -> UsageError:
    return UsageError(
        f"--listen {text!r} is not an address with a port",
        hint="write it as 127.0.0.1:8000, [::1]:8000 or 0.0.0.0:8443",
    )


def require_token(address: ListenAddress, token: str | None) -> None:
    """Raise RefusedError for an address that others reach and no token, or a short one."""
    if token is None and not address.is_loopback:
        raise RefusedError(
            f"everybody who reaches {address.host} could send requests: there is no token",
            hint=TOKEN_HINT,
        )
    if token is not None and len(token) < SHORTEST_TOKEN:
        raise RefusedError(
            f"the token has {len(token)} characters, and needs {SHORTEST_TOKEN}",
            hint="make one: openssl rand -hex 32",
        )


def read_token(path: Path) -> str:
    """The token in a file, without white space around it; raises NotFoundError, RefusedError."""
    try:
        mode = path.stat().st_mode
        text = path.read_text("utf-8").strip()
    except OSError as error:
        raise unreadable_error(path, error, place="--token-file") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"--token-file {path} is not text in UTF-8") from error
    if stat.S_ISREG(mode) and mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise RefusedError(
            f"--token-file {path} can be read by others", hint=f"run: chmod 600 {path}"
        )
    return text


def tls_context(certificate: Path | None, key: Path | None) -> ssl.SSLContext | None:
    """What encrypts connections with a certificate; None without one.

    Raises UsageError, NotFoundError.
    """
    if certificate is None or key is None:
        if certificate is not None or key is not None:
            raise UsageError("--tls-cert and --tls-key belong together", hint="give both, or none")
        return None
    for option, path in (("--tls-cert", certificate), ("--tls-key", key)):
        try:
            path.open("rb").close()
        except OSError as error:
            raise unreadable_error(path, error, place=option) from error
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    try:
        # A key with a password is refused, and not asked for.
        context.load_cert_chain(certificate, key, password=lambda: "")
    except (ssl.SSLError, ValueError) as error:
        raise UsageError(
            f"--tls-cert {certificate} and --tls-key {key} are not a certificate and its key: "
            f"{getattr(error, 'reason', None) or error}",
            hint="give files in PEM, and a key without a password",
        ) from error
    return context


def listen(address: ListenAddress) -> tuple[socket.socket, ListenAddress]:
    """A socket that listens there, and the address with the port that it has.

    Raises LocalIOError.
    """
    family = socket.AF_INET6 if address.is_ipv6 else socket.AF_INET
    try:
        listening = socket.create_server(
            (address.host, address.port), family=family, backlog=socket.SOMAXCONN
        )
    except OSError as error:
        why = os.strerror(error.errno or 0).lower()
        raise LocalIOError(
            f"cannot listen on {address.host}:{address.port}: {why}", hint=FREE_PORT
        ) from error
    _keep_alive(listening)
    return listening, ListenAddress(address.host, listening.getsockname()[1])


def _keep_alive(listening: socket.socket) -> None:
    """Have the system notice clients whose machine is gone; connections take this over."""
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in KEEP_ALIVE.items():
        if option := getattr(socket, name, None):
            listening.setsockopt(socket.IPPROTO_TCP, option, value)


def raise_file_limit() -> None:
    """Allow as many open files as this user may have: each request takes two sockets."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(ValueError, OSError):  # some systems take no unlimited number
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, hard), hard))
