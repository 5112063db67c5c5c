"""Access control lists: who is named in one, with which role, and which lists have names.

Entities, roles and predefined lists: cloud.google.com/storage/docs/access-control/lists. The words
of the refusals are the JSON API's as public clients recorded them up to October 2026.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from localsim import accounts
from localsim.rules.objects.storage_model import (
    Properties,
    StorageError,
    invalid,
    precondition_failed,
)

AccessList = Mapping[str, str]
"""Entity -> role, in the order in which the entries are shown."""
ListEdit = Callable[[AccessList], AccessList]
"""Makes another list of one; raises StorageError."""

OWNER, WRITER, READER = "OWNER", "WRITER", "READER"
PUBLIC = ("allUsers", "allAuthenticatedUsers")
TEAMS = ("owners", "editors", "viewers")
MOST_ENTRIES = 100
_MORE = "Read more at https://cloud.google.com/storage/docs/uniform-bucket-level-access"
_NAMED = re.compile(
    r"(?:user|group)-(?:[^@\s]+@[^@\s]+|[0-9a-f]{64})|domain-[a-z0-9-]+(?:\.[a-z0-9-]+)+"
)
_TEAM = re.compile(r"project-(owners|editors|viewers)-([a-z0-9.:-]+)")
_TEAM_ROLES = {f"project-{team}": OWNER for team in TEAMS} | {"project-viewers": READER}
_PROJECT_OWNERS = {"project-owners": OWNER}


@dataclass(frozen=True, slots=True)
class ListKind:
    """What a kind of list may hold, its predefined lists, and how uniform access refuses it."""

    roles: Sequence[str]
    predefined: Mapping[str, Mapping[str, str]] = field(repr=False)
    """Name -> the entries, without the owner of an object; teams are without their project."""
    cannot_read: str
    cannot_change: str


_OF_OBJECTS: Mapping[str, Mapping[str, str]] = {
    "authenticatedRead": {"allAuthenticatedUsers": READER},
    "bucketOwnerFullControl": _PROJECT_OWNERS,
    "bucketOwnerRead": {"project-owners": READER},
    "private": {},
    "projectPrivate": _TEAM_ROLES,
    "publicRead": {"allUsers": READER},
}
_OF_BUCKETS: Mapping[str, Mapping[str, str]] = {
    "authenticatedRead": {**_PROJECT_OWNERS, "allAuthenticatedUsers": READER},
    "private": _PROJECT_OWNERS,
    "projectPrivate": _TEAM_ROLES,
    "publicRead": {**_PROJECT_OWNERS, "allUsers": READER},
    "publicReadWrite": {**_PROJECT_OWNERS, "allUsers": WRITER},
}
_READ_BUCKET = "Cannot get legacy ACL for a bucket that has uniform bucket-level access."
_CHANGE_BUCKET = (
    "Cannot use ACL API to update bucket policy when uniform bucket-level access is enabled."
)
BUCKET_LIST = ListKind((OWNER, WRITER, READER), _OF_BUCKETS, _READ_BUCKET, _CHANGE_BUCKET)
DEFAULT_LIST = ListKind((OWNER, READER), _OF_OBJECTS, _READ_BUCKET, _CHANGE_BUCKET)
OBJECT_LIST = ListKind(
    (OWNER, READER),
    _OF_OBJECTS,
    "Cannot get legacy ACL for an object when uniform bucket-level access is enabled.",
    "Cannot update access control for an object when uniform bucket-level access is enabled.",
)
NEW_OBJECT_LIST = ListKind(
    (OWNER, READER),
    _OF_OBJECTS,
    "",
    "Cannot insert legacy ACL for an object when uniform bucket-level access is enabled.",
)


def team(name: str, project: str) -> str:
    """The entity of a project's `owners`, `editors` or `viewers`, which has the number in it."""
    return f"project-{name}-{accounts.project_number(project)}"


def default_owner(project: str) -> str:
    """The entity that owns the objects of callers without an account."""
    return f"user-{accounts.default_compute_email(accounts.project_number(project))}"


def predefined_list(kind: ListKind, name: str, project: str) -> dict[str, str]:
    """The entries of a predefined list, without the owner of an object; raises 400."""
    if name not in kind.predefined:
        raise invalid(f"Invalid value for: {name} is not a valid value")
    return {
        entity if entity in PUBLIC else team(entity.removeprefix("project-"), project): role
        for entity, role in kind.predefined[name].items()
    }


def checked_list(kind: ListKind, value: Any) -> dict[str, str]:
    """The entries of a whole list that a client sends; raises StorageError 400."""
    if value is not None and not isinstance(value, list):
        raise invalid("Invalid value for access control list")
    if len(value or ()) > MOST_ENTRIES:
        message = f"An access control list can contain at most {MOST_ENTRIES} entries."
        raise StorageError(400, "tooManyAccessControlEntries", message)
    return dict(checked_entry(kind, entry) for entry in value or ())


def checked_entry(kind: ListKind, value: Any) -> tuple[str, str]:
    """The entity and the role of one entry that a client sends; raises StorageError 400."""
    if not isinstance(value, Mapping):
        raise invalid("Invalid value for access control")
    entity = value.get("entity")
    if entity is None:
        raise StorageError(400, "required", "Required: entity")
    if not isinstance(entity, str):
        raise invalid("entity must be a string.")
    return checked_entity(entity), checked_role(kind, value)


def checked_role(kind: ListKind, entry: Mapping[str, Any]) -> str:
    """The role of an entry; raises StorageError 400."""
    role = entry.get("role")
    if role is None:
        raise StorageError(400, "required", "Access control must contain a role")
    if role not in kind.roles:
        raise invalid(f"Invalid value for: {role} is not a valid value")
    return str(role)


def checked_entity(text: str) -> str:
    """An entity as it is kept: in small letters, a project by its number; raises 400."""
    if text in PUBLIC:
        return text
    lowered = text.lower()
    if _NAMED.fullmatch(lowered):
        return lowered
    found = _TEAM.fullmatch(lowered)
    if found is None:
        raise invalid(f'Scope text "{text}" is not valid.')
    return team(*found.groups())


def with_owner(entries: AccessList, owner: str) -> dict[str, str]:
    """The entries with the owner, who keeps OWNER; raises 403 where they give him less."""
    if entries.get(owner, OWNER) != OWNER:
        raise owner_refused()
    return {**entries, owner: OWNER}


def owner_refused() -> StorageError:
    """A refusal with 403: the owner would not be one any more."""
    message = "The owner of the resource is required to have OWNER access."
    return StorageError(403, "forbidden", message)


def check_one_source(entries: Any, predefined: str | None) -> None:
    """Raise 409 for a list beside the name of a predefined one."""
    if entries and predefined:
        message = "Cannot provide both a predefinedAcl and access controls."
        raise StorageError(409, "conflict", message)


def check_public(entries: AccessList, before: AccessList, *, is_prevented: bool) -> None:
    """Raise 412 for new entries for everybody where public access is prevented."""
    if is_prevented and any(entries.get(each) not in (None, before.get(each)) for each in PUBLIC):
        raise public_access_refused()


def public_access_refused() -> StorageError:
    """A refusal with 412: what was asked would let everybody in."""
    return precondition_failed(
        "The member bindings allUsers and allAuthenticatedUsers are not allowed since"
        " public access prevention is enforced."
    )


def uniform_access_refused(message: str) -> StorageError:
    """A refusal with 400: with uniform access there are no lists."""
    return invalid(f"{message} {_MORE}")


def member_of(entity: str, project: str) -> str:
    """The member of IAM policies that an entity is; `project` is that of the bucket."""
    if entity in PUBLIC:
        return entity
    kind, _, name = entity.partition("-")
    if kind == "user" and name.endswith("gserviceaccount.com"):
        return f"serviceAccount:{name}"
    if kind != "project":
        return f"{kind}:{name}"
    group, _, number = name.partition("-")
    own = str(accounts.project_number(project)) == number
    return f"project{group.removesuffix('s').capitalize()}:{project if own else number}"


def entity_of(member: str) -> str | None:
    """The entity that a member of IAM policies is; None for one that no list can name."""
    if member in PUBLIC:
        return member
    kind, _, name = member.partition(":")
    if kind.startswith("project"):
        return team(f"{kind.removeprefix('project').lower()}s", name)
    known = {"user": "user", "serviceAccount": "user", "group": "group", "domain": "domain"}
    return f"{known[kind]}-{name}" if kind in known else None


def with_entry(entity: str, role: str, *, must_exist: bool = False) -> ListEdit:
    """The edit that gives an entity a role; raises 404 for one that is not there and must be."""

    def edit(entries: AccessList) -> AccessList:
        if must_exist:
            find_role(entries, entity)
        return {**entries, entity: role}

    return edit


def without_entry(entity: str, owner: str | None) -> ListEdit:
    """The edit that removes an entity; raises 404, and 403 for the owner."""

    def edit(entries: AccessList) -> AccessList:
        find_role(entries, entity)
        if entity == owner:
            raise owner_refused()
        return {each: role for each, role in entries.items() if each != entity}

    return edit


def find_role(entries: AccessList, entity: str) -> str:
    """The role of an entity; raises 404."""
    if entity not in entries:
        raise StorageError(404, "notFound", "The specified key does not exist.")
    return entries[entity]


def requested_list(
    kind: ListKind, entries: Any, predefined: str | None, project: str
) -> dict[str, str] | None:
    """The list that a request asks for in full or by name; None where it asks for none."""
    check_one_source(entries, predefined)
    if predefined:
        return predefined_list(kind, predefined, project)
    return checked_list(kind, entries) or None


def stored_list(properties: Properties, name: str) -> AccessList | None:
    """The list among the properties; None where nobody has set one."""
    value = properties.get(name)
    return value if isinstance(value, Mapping) else None
