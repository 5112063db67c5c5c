"""What the HTTP servers log: localsim's own faults, not every stranger's malformed request."""

import logging

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError


class _OwnFaults(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:
        error = record.exc_info[1] if record.exc_info else None
        return not isinstance(error, HttpProcessingError | web.RequestPayloadError)


HTTP_LOG = logging.getLogger("localsim.http")
"""For an AppRunner's `logger`; who sent what does not parse has been told so already."""
HTTP_LOG.addFilter(_OwnFaults())
