"""What a request raises, in our words and without what nobody may read."""

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
