"""What a request raises, in our words and without what nobody may read."""

import socket

import pytest
import requests
from google.auth import exceptions as auth

from tpuctl.errors import CredentialsError, LocalIOError, TransientError
from tpuctl.store.gcs.json_api import translate_errors

LOST = (
    "HTTPSConnectionPool(host='storage.googleapis.com', port=443): Max retries exceeded with url: "
    "/upload/storage/v1/b/box/o?uploadType=resumable&upload_id=secret (Caused by a reset)"
)


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (requests.ConnectionError(LOST), TransientError),
        (auth.TransportError(LOST), TransientError),
        (auth.RefreshError(f"the account was deleted: {LOST}"), CredentialsError),
        (TimeoutError(LOST), TransientError),
        (PermissionError(13, "Permission denied"), LocalIOError),
    ],
)
def test_the_address_of_an_upload_that_goes_on_is_never_told(error, kind):
    with pytest.raises(kind) as raised, translate_errors("gs://box/a"):
        raise error
    assert "secret" not in str(raised.value)
    assert str(raised.value).startswith("gs://box/a: ")


def silent(port: int) -> None:
    requests.get(f"http://127.0.0.1:{port}/storage", timeout=0.05)


def test_a_host_that_does_not_answer_is_named_and_why():
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with pytest.raises(TransientError) as raised, translate_errors("gs://box/a"):
            silent(port)
        assert str(raised.value) == "gs://box/a: 127.0.0.1 has stopped answering"
    with pytest.raises(TransientError) as raised, translate_errors("gs://box/a"):
        silent(port)
    refused = "gs://box/a: 127.0.0.1 cannot be reached: Connection refused"
    assert str(raised.value) == refused
    with pytest.raises(TransientError) as raised, translate_errors("gs://box/a"):
        requests.get("http://nowhere.invalid/", timeout=5)
    assert str(raised.value).startswith("gs://box/a: nowhere.invalid cannot be reached: ")
