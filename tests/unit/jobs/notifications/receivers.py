"""Servers that take messages: HTTP, and as much of SMTP as a client of it needs."""

import base64
import json
import socketserver
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from email import message_from_bytes
from email.message import Message
from email.policy import default
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass
class Got:
    """One POST request."""

    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> dict:
        return json.loads(self.body)

    @property
    def key(self) -> str:
        return self.headers["idempotency-key"]


class HookServer(ThreadingHTTPServer):
    """Notes every POST, and answers what it is told to."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), HookHandler)
        self.got: list[Got] = []
        self.answers: list[tuple[int, str, dict[str, str]]] = []
        """What the next requests are answered; after that 200."""
        self.on_got: Callable[[Got], None] = lambda _got: None

    def url(self, path: str = "/hook") -> str:
        return f"http://127.0.0.1:{self.server_address[1]}{path}"

    def keys(self, path: str = "/hook") -> list[str]:
        return [each.key for each in self.got if each.path.partition("?")[0] == path]


class HookHandler(BaseHTTPRequestHandler):
    server: HookServer

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        headers = {name.lower(): value for name, value in self.headers.items()}
        status, text, more = self.server.answers.pop(0) if self.server.answers else (200, "ok", {})
        found = Got(self.path, headers, body)
        if status == 200:
            self.server.got.append(found)
        self.server.on_got(found)
        self.send_response(status)
        for name, value in more.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *_args) -> None:
        pass


@dataclass
class MailBox:
    """What a mail server has taken, and what it asks of its clients."""

    port: int = 0
    login: tuple[str, str] | None = None
    encryption: ssl.SSLContext | None = None
    """For STARTTLS."""
    refusal: str = ""
    """What it answers to every recipient."""
    mails: list[Message] = field(default_factory=list)
    recipients: list[list[str]] = field(default_factory=list)
    was_encrypted: list[bool] = field(default_factory=list)


class MailHandler(socketserver.StreamRequestHandler):
    """RFC 5321 with AUTH PLAIN and STARTTLS, for one client at a time."""

    def handle(self) -> None:
        self.box: MailBox = self.server.box
        self.to: list[str] = []
        self.is_encrypted = False
        with suppress(ssl.SSLError, ConnectionError):  # a client that does not trust it
            self.talk()

    def finish(self) -> None:
        with suppress(OSError):
            super().finish()
        self.connection.close()

    def talk(self) -> None:
        self.say("220 mail.example ready")
        while line := self.rfile.readline():
            verb, _, rest = line.decode().strip().partition(" ")
            if verb.upper() == "QUIT":
                self.say("221 bye")
                return
            getattr(self, f"on_{verb.lower()}", lambda _rest: self.say("250 ok"))(rest)

    def on_ehlo(self, _rest: str) -> None:
        tls = ["STARTTLS"] if self.box.encryption and not self.is_encrypted else []
        known = ["mail.example", *tls, *(["AUTH PLAIN"] if self.box.login else [])]
        for word in known[:-1]:
            self.say(f"250-{word}")
        self.say(f"250 {known[-1]}")

    def on_starttls(self, _rest: str) -> None:
        self.say("220 go on")
        plain = self.rfile, self.wfile
        self.connection = self.box.encryption.wrap_socket(
            self.connection, server_side=True, do_handshake_on_connect=False
        )
        self.rfile, self.wfile = self.connection.makefile("rb"), self.connection.makefile("wb")
        for file in plain:
            file.close()
        self.is_encrypted = True

    def on_auth(self, rest: str) -> None:
        _, user, password = base64.b64decode(rest.partition(" ")[2]).decode().split("\0")
        is_right = (user, password) == self.box.login
        self.say("235 welcome" if is_right else f"535 5.7.8 bad password {password}")

    def on_rcpt(self, rest: str) -> None:
        self.to.append(rest.partition("<")[2].partition(">")[0])
        self.say(self.box.refusal or "250 ok")

    def on_data(self, _rest: str) -> None:
        self.say("354 go on")
        lines = []
        while (line := self.rfile.readline()) != b".\r\n":
            lines.append(line.removeprefix(b"."))
        self.box.mails.append(message_from_bytes(b"".join(lines), policy=default))
        self.box.recipients.append(self.to)
        self.box.was_encrypted.append(self.is_encrypted)
        self.say("250 queued")

    def say(self, line: str) -> None:
        self.wfile.write(f"{line}\r\n".encode())
        self.wfile.flush()


@contextmanager
def hooks() -> Iterator[HookServer]:
    with HookServer() as server, _serving(server):
        yield server


@contextmanager
def mailbox(**asked) -> Iterator[MailBox]:
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), MailHandler) as server:
        server.daemon_threads = True
        server.box = MailBox(server.server_address[1], **asked)
        with _serving(server):
            yield server.box


@contextmanager
def _serving(server: socketserver.BaseServer) -> Iterator[None]:
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        thread.join()
