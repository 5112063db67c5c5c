"""Resource names and ids: taken apart, checked, put together."""

import re
from dataclasses import dataclass

from localsim.cloud.errors import CloudError, Code, invalid
from tpuctl import catalog

ALL_ZONES = "-"
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.~+%-]{0,62}")


@dataclass(frozen=True, slots=True)
class Project:
    """The project that the simulated cloud holds, known by its id and by its number."""

    id: str
    number: int

    def parent(self, name: str) -> str:
        """`projects/P/locations/Z`, checked and with the project's id; the zone may be `-`."""
        match name.split("/"):
            case ["projects", project, "locations", zone]:
                self._require(project)
                _require_zone(zone)
                return f"projects/{self.id}/locations/{zone}"
        raise invalid(f"Malformed name: '{name}'.")

    def zone(self, name: str) -> str:
        """As `parent`, for one zone only."""
        parent = self.parent(name)
        if parent.endswith(f"/{ALL_ZONES}"):
            raise invalid(f"Malformed name: '{name}' must name one zone.")
        return parent

    def resource(self, name: str, collection: str) -> str:
        """`projects/P/locations/Z/<collection>/ID`, checked and with the project's id."""
        parent, _, rest = name.partition(f"/{collection}/")
        if not rest or "/" in rest:
            raise invalid(f"Malformed name: '{name}'.")
        return f"{self.zone(parent)}/{collection}/{rest}"

    def whole(self, name: str) -> str:
        """`projects/P`, checked and with the project's id."""
        match name.split("/"):
            case ["projects", project]:
                self._require(project)
                return f"projects/{self.id}"
        raise invalid(f"Malformed name: '{name}'.")

    def _require(self, project: str) -> None:
        if project not in (self.id, str(self.number)):
            sentence = f"Permission denied on resource project {project}."
            raise CloudError(Code.PERMISSION_DENIED, sentence)


def zone_of(name: str) -> str:
    """The zone in a checked name."""
    return name.split("/")[3]


def last(name: str) -> str:
    """The last part of a name, or the name itself when it is a short one."""
    return name.rpartition("/")[2]


def checked_id(kind: str, text: str) -> str:
    """An id that a client chose; raises CloudError when it breaks the rules."""
    if not _ID.fullmatch(text):
        raise invalid(
            f"Invalid {kind} '{text}': it must start with a letter or digit and hold at most 63 "
            "letters, digits and characters of '_-.~+%'."
        )
    return text


def _require_zone(zone: str) -> None:
    if zone != ALL_ZONES and zone not in catalog.zones():
        raise invalid(f"The requested zone '{zone}' is not supported.")
