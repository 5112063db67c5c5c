"""One value of Secret Manager: what is asked for, what is checked, and what is said without it."""

import base64
from dataclasses import dataclass, field

import google_crc32c
import pytest

from tpuctl.api import connect
from tpuctl.api.secret_manager import secret_value
from tpuctl.api.tpu.rest import Reply
from tpuctl.config import ANONYMOUS, Context
from tpuctl.errors import (
    IntegrityError,
    NotFoundError,
    PermissionDeniedError,
    PreconditionError,
    TransientError,
)

PLACE = "sm://projects/p/secrets/chat"


@dataclass
class Service:
    """Answers every request with one reply, or raises it."""

    reply: object
    asked: list[tuple[str, str]] = field(default_factory=list)

    def request(self, method: str, path: str, document: object = None) -> Reply:
        self.asked.append((method, path))
        if isinstance(self.reply, Exception):
            raise self.reply
        return self.reply


def answered(data: bytes, **changes) -> Service:
    text = base64.b64encode(data).decode()
    payload = {"data": text, "dataCrc32c": str(google_crc32c.value(data)), **changes}
    return Service(Reply(200, {"payload": payload}))


@pytest.mark.parametrize(
    ("place", "path"),
    [
        (PLACE, "/v1/projects/p/secrets/chat/versions/latest:access"),
        (f"{PLACE}/versions/3", "/v1/projects/p/secrets/chat/versions/3:access"),
    ],
)
def test_the_newest_version_is_read_unless_another_is_named(place, path):
    service = answered(b"https://hooks.example.com/1\n")
    assert secret_value(service, place) == "https://hooks.example.com/1"
    assert service.asked == [("GET", path)]


@pytest.mark.parametrize(
    ("service", "kind", "text"),
    [
        (Service(Reply(403, {})), PermissionDeniedError, f"{PLACE}: HTTP 403"),
        (Service(Reply(404, {})), NotFoundError, f"{PLACE}: HTTP 404"),
        (Service(Reply(500, {})), TransientError, f"{PLACE}: HTTP 500"),
        (Service(ConnectionError("x")), TransientError, f"{PLACE} cannot be asked for: x"),
        (Service(Reply(200, {"payload": []})), TransientError,
         f"the answer about {PLACE} is not understood: 'list' object has no attribute 'get'"),
        (answered(b"value", dataCrc32c="1"), IntegrityError,
         f"{PLACE}: the bytes received are not the bytes stored"),
        (answered(b"\xff"), IntegrityError, f"{PLACE} is not UTF-8 text"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_named_by_its_place(service, kind, text):
    with pytest.raises(kind) as raised:
        secret_value(service, PLACE)
    assert str(raised.value) == text


def test_another_cloud_is_not_asked_for_the_secrets_of_this_one():
    context = Context("lab", "p", "z", "b", tpu_endpoint="127.0.0.1:1", credentials=ANONYMOUS)
    with pytest.raises(PreconditionError, match="its nodes and Secret Manager in different clouds"):
        connect.secret_reader(context)(PLACE)
