"""OS Login: the key goes to the account's profile; its user name comes back."""

import json
import threading
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
import requests

from tpuctl.api.ssh import os_login
from tpuctl.api.tpu.rest import RestApi
from tpuctl.config import Context
from tpuctl.errors import PermissionDeniedError, PreconditionError, TransientError
from unit.api.ssh.ssh_worker import ours

PROFILE = {
    "loginProfile": {
        "name": "12345",
        "posixAccounts": [
            {"username": "old", "operatingSystemType": "LINUX"},
            {"username": "win", "operatingSystemType": "WINDOWS", "primary": True},
            {"username": "ada_example_com", "operatingSystemType": "LINUX", "primary": True},
        ],
        "sshPublicKeys": {},
    }
}


@pytest.fixture
def profile():
    """`profile(status, document)` imports a key there: what was asked, and what it made of it."""
    asked, answers = [], []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            asked.append((self.path, json.loads(body)))
            status, document = answers.pop()
            self.send_response(status)
            self.end_headers()
            self.wfile.write(json.dumps(document).encode())

        def log_message(self, *_):
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()

    def imported(status, document):
        answers.append((status, document))
        with requests.Session() as session:
            api = RestApi(f"http://127.0.0.1:{server.server_port}", session)
            return os_login.import_key(
                api, "ada@example.com", "ssh-ed25519 AAAA tpuctl", "p1"
            ), asked

    yield imported
    server.shutdown()
    server.server_close()


def test_the_primary_account_of_linux_is_who_we_are(profile):
    user, asked = profile(200, PROFILE)
    assert user == "ada_example_com"
    assert asked == [
        (
            "/v1/users/ada@example.com:importSshPublicKey?projectId=p1",
            {"key": "ssh-ed25519 AAAA tpuctl"},
        )
    ]


@pytest.mark.parametrize(
    ("status", "document", "kind", "text"),
    [
        (403, {"error": {"message": "no osLogin"}}, PermissionDeniedError, "OS Login: no osLogin"),
        (503, {}, TransientError, "OS Login: HTTP 503"),
        (200, {"loginProfile": {}}, PreconditionError, "no user name for ada@example.com"),
    ],
)
def test_refusals(profile, status, document, kind, text):
    with pytest.raises(kind, match=text):
        profile(status, document)


@pytest.mark.parametrize(
    ("value", "on"), [("TRUE", True), ("true", True), ("FALSE", False), ("", False)]
)
def test_metadata_says_so(value, on):
    assert os_login.is_on({"enable-oslogin": value}) is on


def test_elsewhere_than_on_google_it_is_refused_with_the_reason(tmp_path):
    local = Context("local", "p", "z", "b", tpu_endpoint="127.0.0.1:1", credentials="anonymous")
    with pytest.raises(PreconditionError, match="context 'local' has others") as refused:
        os_login.with_os_login(replace(ours(tmp_path), context=local))
    assert "enable-oslogin=FALSE" in refused.value.hint
