"""Resource names and ids: parsed, checked and composed."""

import re
import uuid
from collections.abc import Callable
from dataclasses import dataclass

from localsim.rules.model.cloud_errors import CloudError, Code, ErrorInfo, invalid
from tpuctl import catalog

ALL_ZONES = "-"
SERVICE = "tpu.googleapis.com"
MAX_ID_CHARS = 255
_ID = re.compile(r"[A-Za-z0-9_.~+%-]+")  # the documented pattern; no length is published
_UUID = re.compile(r"[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}")


@dataclass(frozen=True, slots=True)
class ProjectNames:
    """The names of the one project, known by its id and by its number."""

    id: str
    number: int
    is_closed: Callable[[str], bool]
    """Whether a zone of the service is not open to this project."""
    is_unreachable: Callable[[str], bool]
    """Whether the control plane of a zone does not answer."""

    def parent(self, name: str) -> str:
        """Check `projects/P/locations/Z`, where Z may be `-`; returned with the project's id."""
        match name.split("/"):
            case ["projects", project, "locations", zone]:
                self._require(project)
                self._require_zone(zone)
                return f"projects/{self.id}/locations/{zone}"
        raise invalid(f"Malformed name: '{name}'.")

    def zone(self, name: str) -> str:
        """Check `projects/P/locations/Z` for one zone; returned with the project's id."""
        parent = self.parent(name)
        if parent.endswith(f"/{ALL_ZONES}"):
            raise invalid(f"Malformed name: '{name}' must name one zone.")
        return parent

    def resource(self, name: str, collection: str) -> str:
        """Check `projects/P/locations/Z/<collection>/ID`; returned with the project's id."""
        parent, _, rest = name.partition(f"/{collection}/")
        if not rest or "/" in rest:
            raise invalid(f"Malformed name: '{name}'.")
        return f"{self.zone(parent)}/{collection}/{rest}"

    def whole(self, name: str) -> str:
        """Check `projects/P`; returned with the project's id."""
        match name.split("/"):
            case ["projects", project]:
                self._require(project)
                return f"projects/{self.id}"
        raise invalid(f"Malformed name: '{name}'.")

    @property
    def service_agent(self) -> str:
        """The e-mail address of the account by which Cloud TPU acts in the project."""
        return f"service-{self.number}@cloud-tpu.iam.gserviceaccount.com"

    def _require(self, project: str) -> None:
        if project not in (self.id, str(self.number)):
            sentence = f"Permission denied on resource project {project}."
            raise _denied(sentence, "CONSUMER_INVALID", consumer=f"projects/{project}")

    def _require_zone(self, zone: str) -> None:
        if zone == ALL_ZONES:
            return
        if zone not in catalog.zones():
            raise invalid(f"The requested zone '{zone}' is not supported.")
        if self.is_closed(zone):
            sentence = f"Permission denied on 'locations/{zone}' (or it may not exist)."
            consumer = f"projects/{self.number}"
            raise _denied(sentence, "LOCATION_POLICY_VIOLATED", consumer=consumer, location=zone)
        if self.is_unreachable(zone):
            raise CloudError(Code.UNAVAILABLE, f"The zone '{zone}' is currently unavailable.")


def zone_of(name: str) -> str:
    """The zone's id in a checked name."""
    return name.split("/")[3]


def last_part(name: str) -> str:
    """The last part of a name, or the name itself when it is a short one."""
    return name.rpartition("/")[2]


def checked_id(kind: str, text: str) -> str:
    """An id that a client chose; raises CloudError when it breaks the rules."""
    if not _ID.fullmatch(text) or len(text) > MAX_ID_CHARS or not text.strip("."):
        raise invalid(
            f"Invalid {kind} '{text[:MAX_ID_CHARS]}': it must hold 1 to {MAX_ID_CHARS} letters, "
            "digits "
            "and characters of '_-.~+%'."
        )
    return text


def checked_request_id(text: str) -> str:
    """The id that makes a request idempotent, or nothing; raises CloudError."""
    if text and (not _UUID.fullmatch(text) or not uuid.UUID(text).int):
        raise invalid(
            f"Invalid request id '{text[:MAX_ID_CHARS]}': it must be a UUID, not all zero."
        )
    return text.lower()


def _denied(sentence: str, reason: str, **about: str) -> CloudError:
    info = ErrorInfo(reason, "googleapis.com", {**about, "service": SERVICE})
    return CloudError(Code.PERMISSION_DENIED, sentence, info)
