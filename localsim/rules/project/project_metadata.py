"""Metadata of the whole project (`commonInstanceMetadata`), and the operations that changed it."""

import base64
import hashlib
import json
import sqlite3
from collections.abc import Mapping
from contextlib import AbstractContextManager

from localsim.rules.db.database import transaction

_METADATA = "metadata"


class StaleFingerprintError(Exception):
    """Somebody else changed the metadata since it was read."""


class ProjectMetadata:
    """Key and value pairs, replaced as a whole; durable when a call returns."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        """Create the table when it does not exist."""
        self._connection = connection
        connection.execute(
            "CREATE TABLE IF NOT EXISTS project_documents (name TEXT PRIMARY KEY, document TEXT)"
        )

    def items(self) -> dict[str, str]:
        """The pairs that are set."""
        pairs = self._read(_METADATA) or {}
        return {key: str(value) for key, value in pairs.items()}

    def fingerprint(self) -> str:
        """A hash of the pairs that guards `replace`."""
        text = json.dumps(self.items(), sort_keys=True)
        return base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()[:8]).decode("ascii")

    def replace(
        self, items: Mapping[str, str], fingerprint: str, operation: Mapping[str, object]
    ) -> None:
        """Set all pairs and store the operation; raises StaleFingerprintError.

        An empty fingerprint is not compared.
        """
        if fingerprint and fingerprint != self.fingerprint():
            raise StaleFingerprintError
        with transaction(self._connection):
            self._write(_METADATA, items)
            self._write(f"operation/{operation['name']}", operation)

    def operation(self, name: str) -> dict[str, object] | None:
        """The stored operation of that name, or None."""
        return self._read(f"operation/{name}")

    def write_operation(self, operation: Mapping[str, object]) -> None:
        """Store an operation that changed something else."""
        with transaction(self._connection):
            self._write(f"operation/{operation['name']}", operation)

    def policy(self, resource: str) -> dict[str, list[str]]:
        """The roles of each member in the policy of a resource of the project."""
        document = self._read(f"policy/{resource}") or {}
        return {
            member: list(roles) for member, roles in document.items() if isinstance(roles, list)
        }

    def write_policy(self, resource: str, roles: Mapping[str, list[str]]) -> None:
        """Replace the policy of a resource of the project."""
        with transaction(self._connection):
            self._write(f"policy/{resource}", roles)

    def transaction(self) -> AbstractContextManager[None]:
        """A transaction of its database, which has the project's secrets and log entries too."""
        return transaction(self._connection)

    def clear(self) -> None:
        """Delete all pairs and operations."""
        self._connection.execute("DELETE FROM project_documents")

    def _read(self, name: str) -> dict[str, object] | None:
        query = "SELECT document FROM project_documents WHERE name = ?"
        row = self._connection.execute(query, (name,)).fetchone()
        return None if row is None else dict(json.loads(row[0]))

    def _write(self, name: str, document: Mapping[str, object]) -> None:
        query = "INSERT OR REPLACE INTO project_documents VALUES (?, ?)"
        self._connection.execute(query, (name, json.dumps(dict(document))))
