"""Access control lists in the XML API: its documents, and the names that it has for them.

cloud.google.com/storage/docs/xml-api/get-object-acls. The teams of a project, and users and groups
that are known by an id alone, are written by that id; a team's is made here of its name.
"""

import hashlib
from collections.abc import Mapping
from xml.parsers import expat

from localsim.rules.objects.access.access_lists import (
    OWNER,
    PUBLIC,
    READER,
    WRITER,
    AccessList,
    ListKind,
    checked_list,
)
from localsim.rules.objects.storage_model import StorageError
from localsim.services.storage.xml.documents import Tree

ROOT = "AccessControlList"
_PERMISSIONS = {OWNER: "FULL_CONTROL", WRITER: "WRITE", READER: "READ"}
_ROLES = {permission: role for role, permission in _PERMISSIONS.items()}
_PUBLIC_SCOPES = dict(zip(PUBLIC, ("AllUsers", "AllAuthenticatedUsers"), strict=True))
_KINDS = {
    "UserByEmail": ("user", "EmailAddress"),
    "UserById": ("user", "ID"),
    "GroupByEmail": ("group", "EmailAddress"),
    "GroupById": ("group", "ID"),
    "GroupByDomain": ("domain", "Domain"),
}
"""Type of a scope -> the kind of its entity, and the element that names it."""
_FORM = {
    ROOT: ("Owner", "Entries"),
    "Owner": ("ID", "Name"),
    "Entries": ("Entry",),
    "Entry": ("Scope", "Permission"),
    "Scope": ("ID", "EmailAddress", "Domain", "Name"),
}
"""Element -> those that may be in it; in every other one is text."""
_TEAM_ID = "00b4903a97"
"""The first digits of the ids of teams, which have 64."""


def list_tree(owner: str, entries: AccessList) -> Tree:
    """The document of a list."""
    return (
        ("Owner", (("ID", entity_id(owner)),)),
        ("Entries", [("Entry", _entry(entity, entries[entity])) for entity in entries]),
    )


def entity_id(entity: str) -> str:
    """The id by which the XML API knows an entity: 64 hexadecimal digits."""
    name = entity.partition("-")[2]
    if "@" not in name and not entity.startswith(("project-", "domain-")):
        return name
    digest = hashlib.sha256(entity.encode()).hexdigest()
    return _TEAM_ID + digest[len(_TEAM_ID) :]


def _entry(entity: str, role: str) -> Tree:
    kind, _, name = entity.partition("-")
    permission = ("Permission", _PERMISSIONS[role])
    if entity in PUBLIC:
        return ((f"Scope type='{_PUBLIC_SCOPES[entity]}'", ""), permission)
    if kind == "project":
        scope, element, text = "GroupById", "ID", entity_id(entity)
    elif kind == "domain":
        scope, element, text = "GroupByDomain", "Domain", name
    else:
        by = "Email" if "@" in name else "Id"
        scope, text = f"{kind.capitalize()}By{by}", name
        element = _KINDS[scope][1]
    return ((f"Scope type='{scope}'", ((element, text),)), permission)


def parsed_list(kind: ListKind, data: bytes, known: AccessList) -> dict[str, str]:
    """The entries of a document; an id of a team is understood where it is in the `known` list.

    Raises StorageError 400.
    """
    reader = _ListReader({entity_id(entity): entity for entity in known})
    parser = expat.ParserCreate()
    parser.buffer_text = True  # or a text of many lines costs their number squared
    parser.StartDoctypeDeclHandler = reader.refuse
    parser.StartElementHandler = reader.start
    parser.EndElementHandler = reader.end
    parser.CharacterDataHandler = reader.text
    try:
        parser.Parse(data, True)  # noqa: FBT003
    except (expat.ExpatError, ValueError, LookupError):  # two of them: odd encodings
        raise malformed_list() from None
    return checked_list(kind, reader.entries)


def malformed_list() -> StorageError:
    """A refusal with 400: the body is not such a document."""
    message = "The XML you provided was not well-formed or did not validate against our schema."
    return StorageError(400, "MalformedACLError", message)


class _ListReader:
    """Collects the entries of a document while it is parsed."""

    def __init__(self, ids: Mapping[str, str]) -> None:
        self.entries: list[dict[str, str]] = []
        self._ids = ids
        self._path: list[str] = []
        self._scope = ""
        self._texts: dict[str, str] = {}

    def refuse(self, *_: object) -> None:
        """Refuse a document with declarations, in which entities could multiply."""
        raise malformed_list()

    def start(self, name: str, attributes: Mapping[str, str]) -> None:
        """Enter an element."""
        if name not in (_FORM.get(self._path[-1], ()) if self._path else (ROOT,)):
            raise malformed_list()
        self._path.append(name)
        if name == "Entry":
            self._scope, self._texts = "", {}
        if name == "Scope":
            self._scope = attributes.get("type", "")

    def text(self, data: str) -> None:
        """Take the text of an element that names something."""
        if self._path and self._path[-1] not in _FORM:
            name = self._path[-1]
            self._texts[name] = self._texts.get(name, "") + data.strip()

    def end(self, name: str) -> None:
        """Leave an element; an entry is complete then."""
        self._path.pop()
        if name == "Entry":
            role = _ROLES.get(self._texts.get("Permission", ""))
            entity = self._entity()
            if role is None or entity is None:
                raise malformed_list()
            self.entries.append({"entity": entity, "role": role})

    def _entity(self) -> str | None:
        for entity, scope in _PUBLIC_SCOPES.items():
            if scope == self._scope:
                return entity
        if self._scope not in _KINDS:
            return None
        kind, element = _KINDS[self._scope]
        name = self._texts.get(element)
        return None if name is None else self._ids.get(name, f"{kind}-{name}")
