"""No name that a client sends to Cloud Storage becomes a path, on any of its wires."""

import pytest

from client.storage.hostile_wire import healthy, spelled, status

pytest_plugins = ("client.storage.storage_fixtures", "client.storage.xml_api.xml_fixtures")

TRAVERSALS = [
    "..",
    ".",
    "../../../../../../canary",
    "/etc/passwd",
    "a/../../canary",
    "..\\..\\canary",
    "\0",
    "canary\0.txt",
    "C:\\canary",
    "~root",
    "|id",
    "$(touch canary2)",
    "\u202e\ufeff\U0001f600",
    "a" * 1025,
    "a" * 65_536,
]
INVALID = ["%ff", "%c0%af..%c0%af", "%ed%a0%80", "%", "%2", "%zz", "%25%32%65", "%u002e"]
TARGETS = [
    ("PUT", "/box/{}"),
    ("GET", "/box/{}"),
    ("DELETE", "/box/{}"),
    ("POST", "/box/{}?uploads"),
    ("PUT", "/box/x?uploadId={}&partNumber=1"),
    ("GET", "/{}"),
    ("PUT", "/{}/x"),
    ("GET", "/box?prefix={}&marker={}"),
    ("GET", "/box?list-type=2&continuation-token={}"),
    ("POST", "/storage/v1/b?project={}"),
    ("GET", "/storage/v1/b/{}"),
    ("GET", "/storage/v1/b/{}/o/x"),
    ("GET", "/storage/v1/b/box/o/{}"),
    ("GET", "/download/storage/v1/b/box/o/{}?alt=media"),
    ("DELETE", "/storage/v1/b/box/o/{}"),
    ("PATCH", "/storage/v1/b/box/o/{}"),
    ("GET", "/storage/v1/b/box/o?prefix={}&matchGlob={}"),
    ("GET", "/storage/v1/b/box/o?pageToken={}"),
    ("GET", "/storage/v1/b/box/o/kept?fields={}"),
    ("POST", "/storage/v1/b/box/o/kept/copyTo/b/box/o/{}"),
    ("POST", "/storage/v1/b/box/o/kept/rewriteTo/b/box/o/{}"),
    ("POST", "/storage/v1/b/box/o/kept/moveTo/o/{}"),
    ("POST", "/storage/v1/b/box/o/{}/compose"),
    ("POST", "/upload/storage/v1/b/box/o?uploadType=media&name={}"),
    ("POST", "/upload/storage/v1/b/box/o?uploadType=resumable&name={}"),
    ("PUT", "/upload/storage/v1/b/box/o?uploadType=resumable&upload_id={}"),
    ("DELETE", "/upload/storage/v1/b/box/o?uploadType=resumable&upload_id={}"),
    ("GET", "/retry_test/{}"),
    ("DELETE", "/retry_test/{}"),
]


@pytest.mark.parametrize(("verb", "template"), TARGETS)
def test_no_name_is_a_path(shut, verb, template):
    around = set(shut.directory.parent.iterdir())
    for name in [*map(spelled, TRAVERSALS), *INVALID]:
        path = template.replace("{}", name)
        # Refused before all of it is read: a reset may overtake the reply.
        reply = shut.raw_until_broken(
            f"{verb} {path} HTTP/1.1\r\nHost: localhost:{shut.port}\r\nConnection: close\r\n"
            "Content-Length: 2\r\n\r\n{}".encode()
        )
        assert not reply or status(reply) < 500 or status(reply) == 501, (path[:80], reply[:300])
    if template.startswith(("/{}", "/storage/v1/b/{}")):
        for name in TRAVERSALS:
            assert shut.request(verb, template.replace("{}", spelled(name))).status >= 400
    healthy(shut)
    assert set(shut.directory.parent.iterdir()) == around
