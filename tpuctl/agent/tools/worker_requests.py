"""What a worker asks of Google: its metadata server, the storage and the Cloud TPU API.

Standard library only, Python 3.8: it is shipped with `deadman_switch`.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
from email.utils import parsedate_to_datetime
from urllib.parse import urlsplit

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

HTTP_TIMEOUT_S = 8.0
METADATA_TIMEOUT_S = 2.0
MAX_MESSAGE = 300
TEXT = {"Content-Type": "text/plain"}
JSON = {"Content-Type": "application/json"}


def request(  # noqa: PLR0913 (the parts of a request)
    method: str,
    base: str,
    path: str,
    headers: Mapping[str, str],
    timeout_s: float = HTTP_TIMEOUT_S,
    *,
    body: bytes | None = None,
) -> tuple[int, Mapping[str, str], bytes]:
    """Send one request; return status, headers and body. Raises OSError for any failure."""
    address = urlsplit(base)
    secure = address.scheme == "https"
    kind = http.client.HTTPSConnection if secure else http.client.HTTPConnection
    connection = kind(address.hostname or "", address.port, timeout=timeout_s)
    try:
        connection.request(method, address.path.rstrip("/") + path, body, dict(headers))
        with connection.getresponse() as reply:
            return reply.status, reply.headers, reply.read()  # type: ignore[return-value]
    except (http.client.HTTPException, ValueError) as error:
        raise OSError(f"{address.hostname}: {error}") from error
    finally:
        connection.close()


def metadata(path: str) -> str | None:
    """Return a value of the metadata server, None without one."""
    with contextlib.suppress(OSError, UnicodeDecodeError):
        status, _, body = ask_metadata("GET", path)
        return body.decode() if status == 200 else None
    return None


def ask_metadata(
    method: str, path: str, body: bytes | None = None
) -> tuple[int, Mapping[str, str], bytes]:
    """Send one request to the metadata server; as `request`. Raises OSError."""
    host = os.environ.get("GCE_METADATA_HOST", "metadata.google.internal")
    headers = {"Metadata-Flavor": "Google", **({} if body is None else TEXT)}
    url = f"/computeMetadata/v1/{path}"
    return request(method, f"http://{host}", url, headers, METADATA_TIMEOUT_S, body=body)


def answered_s(headers: Mapping[str, str]) -> float | None:
    """When a server answered, by its own clock, in seconds since 1970; None if it does not say."""
    with contextlib.suppress(ValueError, TypeError, IndexError, OverflowError):
        return parsedate_to_datetime(headers.get("Date") or "").timestamp()
    return None


def authorization() -> dict[str, str]:
    """Return the header with the worker's access token; empty when it has none."""
    with contextlib.suppress(ValueError, KeyError, TypeError):
        grant = json.loads(metadata("instance/service-accounts/default/token") or "")
        return {"Authorization": f"Bearer {grant['access_token']}"}
    return {}


def tpu_request(
    config: Mapping[str, Any], method: str, path: str, body: bytes | None = None
) -> tuple[int, Mapping[str, str], bytes]:
    """Send a request about a resource in the slice's zone to Cloud TPU; raises OSError.

    `config` has `project`, `zone` and `tpu`: the API, unless the worker names
    another one.
    """
    base = os.environ.get("CLOUDSDK_API_ENDPOINT_OVERRIDES_TPU") or config["tpu"]
    parent = f"/v2/projects/{config['project']}/locations/{config['zone']}"
    headers = {**authorization(), **({} if body is None else JSON)}
    return request(method, base, f"{parent}/{path}", headers, body=body)


def delete_resource(config: Mapping[str, Any], path: str) -> tuple[int, str, str]:
    """The HTTP status, the RPC status and one line for people of a deletion's answer.

    The RPC status (`NOT_FOUND`) is empty where it is not Cloud TPU that answers. Raises OSError.
    """
    status, _, body = tpu_request(config, "DELETE", path)
    try:
        error = json.loads(body).get("error", {})
        code, message = str(error.get("status", "")), str(error.get("message", ""))
    except (ValueError, AttributeError):
        code, message = "", ""
    return status, code, " ".join(f"{status} {code} {message}".split())[:MAX_MESSAGE]
