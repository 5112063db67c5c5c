"""The REST side of an API of Google's, for the few fields that its typed messages lack."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tpuctl.network_policy import REST_TIMEOUT_S


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer: its HTTP status and its JSON document, `{}` when it has none."""

    status: int
    document: Mapping[str, Any]
    retry_after: str = ""


@dataclass(frozen=True, slots=True)
class RestApi:
    """One base URL, and the session that carries its tokens."""

    endpoint: str
    session: Any

    def request(self, method: str, path: str, document: Mapping[str, Any] | None = None) -> Reply:
        """Call `path` (`/v2/...`); raises OSError without an answer, and what tokens raise."""
        url = f"{self.endpoint.rstrip('/')}{path}"
        with self.session.request(method, url, json=document, timeout=REST_TIMEOUT_S) as reply:
            try:
                found = reply.json()
            except ValueError:
                found = None
            retry_after = str(reply.headers.get("Retry-After", ""))
            if isinstance(found, dict):
                return Reply(reply.status_code, found, retry_after)
            if reply.ok:  # somebody in between, such as a hotel's login page
                raise ConnectionError(f"{self.endpoint} answers, but not in JSON")
            return Reply(reply.status_code, {}, retry_after)

    def close(self) -> None:
        """Close the connections."""
        self.session.close()
