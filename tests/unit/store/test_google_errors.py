"""What Google's library raises, in our words and without what nobody may read."""

import pytest
import requests
from google.api_core import exceptions as api

from tpuctl.errors import TransientError
from tpuctl.store.gcs.google_errors import translate_errors

LOST = (
    "HTTPSConnectionPool(host='storage.googleapis.com', port=443): Max retries exceeded with url: "
    "/upload/storage/v1/b/box/o?uploadType=resumable&upload_id=secret (Caused by a reset)"
)


@pytest.mark.parametrize(
    "error",
    [
        requests.ConnectionError(LOST),
        api.RetryError(f"Timeout of 300.0s exceeded, last exception: {LOST}", None),
        api.ServiceUnavailable("PUT https://x/upload/storage/v1/b/box/o?upload_id=secret: no"),
    ],
)
def test_the_address_of_an_upload_that_goes_on_is_never_told(error):
    with pytest.raises(TransientError) as raised, translate_errors("gs://box/a"):
        raise error
    assert "secret" not in str(raised.value)
    assert str(raised.value).startswith("gs://box/a: ")
