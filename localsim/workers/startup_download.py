"""Downloads a startup script on a worker, as the worker: `python3 -c SOURCE gs://B/OBJECT PATH`.

It runs there with the standard library alone. Exit code 1 and one line say why it did not.
"""

import json
import os
import sys
import urllib.error
import urllib.parse
import urllib.request

TIMEOUT_S = 60.0
_TOKEN = "/computeMetadata/v1/instance/service-accounts/default/token"  # noqa: S105


def main(url: str, path: str) -> None:
    """Write the object to an executable file."""
    bucket, _, name = url.removeprefix("gs://").partition("/")
    if not url.startswith("gs://") or not bucket or not name:
        sys.exit(f"cannot fetch {url}: only gs://BUCKET/OBJECT is fetched here")
    metadata = os.environ.get("GCE_METADATA_HOST", "metadata.google.internal")
    quoted = [urllib.parse.quote(part, safe="") for part in (bucket, name)]
    storage = os.environ["STORAGE_EMULATOR_HOST"]
    try:
        token = json.loads(_get(f"http://{metadata}{_TOKEN}", {"Metadata-Flavor": "Google"}))
        credentials = {"Authorization": f"Bearer {token['access_token']}"}
        media = "{}/storage/v1/b/{}/o/{}?alt=media".format(storage, *quoted)
        content = _get(media, credentials)
    except urllib.error.HTTPError as error:
        sys.exit(f"cannot fetch {url}: HTTP {error.code}")
    except OSError as error:
        sys.exit(f"cannot fetch {url}: {error}")
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o700), "wb") as file:  # noqa: PTH123
        file.write(content)


def _get(url: str, headers: dict[str, str]) -> bytes:
    request = urllib.request.Request(url, headers=headers)  # noqa: S310 -- ours
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with direct.open(request, timeout=TIMEOUT_S) as reply:
        content: bytes = reply.read()
    return content


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
