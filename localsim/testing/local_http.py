"""JSON over HTTP with the ports of a simulated cloud, through one connection that is kept."""

import http.client
import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from localsim.testing.simulator_options import SimulatedCloudError

TIMEOUT_S = 60.0


class JsonConnection:
    """A kept connection to one port of a simulated cloud."""

    def __init__(self, endpoint: str, headers: Mapping[str, str] | None = None) -> None:
        """Send `headers` with every request to `endpoint`, such as `http://127.0.0.1:8080`."""
        address = urlsplit(endpoint)
        self._connection = http.client.HTTPConnection(
            address.hostname or "", address.port, timeout=TIMEOUT_S
        )
        self._headers = {"Content-Type": "application/json", **(headers or {})}

    def send(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """The JSON object that answers a request. Raises SimulatedCloudError for a refusal."""
        content = None if body is None else json.dumps(body).encode()
        status, answer = self._exchange(method, path, content)
        if status >= 400:
            raise SimulatedCloudError(_refusal_text(status, answer))
        document: dict[str, Any] = json.loads(answer or b"{}")
        return document

    def close(self) -> None:
        """Close the connection; the next request opens another one."""
        self._connection.close()

    def _exchange(self, method: str, path: str, content: bytes | None) -> tuple[int, bytes]:
        """Status and body. The server may have closed an idle connection: then a new one asks."""
        is_new = self._connection.sock is None
        try:
            return self._exchange_once(method, path, content)
        except (http.client.RemoteDisconnected, ConnectionError) as error:
            self.close()
            if is_new:
                raise SimulatedCloudError(f"the simulated cloud does not answer: {error}") from None
        return self._exchange_once(method, path, content)

    def _exchange_once(self, method: str, path: str, content: bytes | None) -> tuple[int, bytes]:
        try:
            self._connection.request(method, path, content, self._headers)
            reply = self._connection.getresponse()
            return reply.status, reply.read()
        except BaseException:
            self.close()  # what answers comes too late for the next request
            raise


def _refusal_text(status: int, answer: bytes) -> str:
    """What a refusal says: `{"error": TEXT}`, or Google's `{"error": {"message": TEXT}}`."""
    try:
        error = json.loads(answer)["error"]
    except (ValueError, KeyError, TypeError):
        return f"HTTP status {status}"
    return str(error["message"] if isinstance(error, dict) else error)
