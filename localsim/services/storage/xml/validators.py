"""If-Match, If-None-Match and the conditions on dates, by RFC 9110, section 13.2.2."""

from collections.abc import Mapping
from email.utils import parsedate_to_datetime

from localsim.cloud.objects.storage_model import StoredObject
from localsim.services.storage.wire.json_requests import StorageCall
from localsim.services.storage.xml.xml_errors import XmlError
from localsim.services.storage.xml.xml_requests import etag_of


def check_validators(call: StorageCall, found: StoredObject | None, *, reading: bool) -> None:
    """Raise 412, or 304 for a reader who has what is there; dates are for readers only."""
    headers = call.request.headers
    if "If-Match" in headers:
        is_wanted = _is_among(headers["If-Match"], found)
    else:
        is_wanted = not (reading and _is_newer(headers, "If-Unmodified-Since", found, absent=False))
    if not is_wanted:
        raise _refused(412, found)
    if "If-None-Match" in headers:
        is_known = _is_among(headers["If-None-Match"], found)
    else:
        is_known = reading and not _is_newer(headers, "If-Modified-Since", found, absent=True)
    if is_known:
        raise _refused(304 if reading else 412, found)


def _is_among(header: str, found: StoredObject | None) -> bool:
    if found is None:
        return False
    etags = {etag.strip().removeprefix("W/").strip('"') for etag in header.split(",")}
    return not etags.isdisjoint({"*", etag_of(found).strip('"')})


def _is_newer(
    headers: Mapping[str, str], name: str, found: StoredObject | None, *, absent: bool
) -> bool:
    """Whether the object has changed since; `absent` where no date is given."""
    since_s = _seconds_of(headers.get(name))
    return absent if since_s is None or found is None else int(found.updated_s) > since_s


def _seconds_of(header: str | None) -> float | None:
    """The moment that a header names; one that is no date is ignored (RFC 9110, 13.1.3)."""
    try:
        return None if header is None else parsedate_to_datetime(header).timestamp()
    except (ValueError, OverflowError):
        return None


def _refused(status: int, found: StoredObject | None) -> XmlError:
    message = "At least one of the pre-conditions you specified did not hold."
    error = XmlError(status, "PreconditionFailed", message)
    if found is not None:
        error.headers["ETag"] = etag_of(found)
    return error
