"""The project's secrets and their versions, as Secret Manager keeps them; durable at once."""

import json
import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from localsim.rules.db.database import transaction


@dataclass(frozen=True, slots=True)
class StoredSecret:
    """A secret without its versions."""

    name: str
    created_s: float
    settings: Mapping[str, Any]
    """Replication, labels and the like, as they were given."""


@dataclass(frozen=True, slots=True)
class SecretVersion:
    """One value of a secret, which never changes."""

    number: int
    created_s: float
    data: bytes


class SecretStore:
    """Secrets by name, their versions counted from 1."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        """Create the tables when they do not exist."""
        self._connection = connection
        connection.execute(
            "CREATE TABLE IF NOT EXISTS secrets"
            " (name TEXT PRIMARY KEY, created_s REAL, settings TEXT)"
        )
        connection.execute(
            "CREATE TABLE IF NOT EXISTS secret_versions"
            " (name TEXT, number INTEGER, created_s REAL, data BLOB, PRIMARY KEY (name, number))"
        )

    def create(self, secret: StoredSecret) -> bool:
        """Store a new secret; False when one of that name exists."""
        row = (secret.name, secret.created_s, json.dumps(dict(secret.settings)))
        inserted = self._connection.execute("INSERT OR IGNORE INTO secrets VALUES (?, ?, ?)", row)
        return inserted.rowcount == 1

    def get(self, name: str) -> StoredSecret | None:
        """The secret of that name, or None."""
        return next((each for each in self.all() if each.name == name), None)

    def all(self) -> list[StoredSecret]:
        """Every secret, by name."""
        rows = self._connection.execute("SELECT * FROM secrets ORDER BY name")
        return [StoredSecret(name, created_s, json.loads(text)) for name, created_s, text in rows]

    def add(self, name: str, created_s: float, data: bytes) -> SecretVersion:
        """Add a version to a secret that exists."""
        with transaction(self._connection):
            number = len(self.versions(name)) + 1
            row = (name, number, created_s, data)
            self._connection.execute("INSERT INTO secret_versions VALUES (?, ?, ?, ?)", row)
        return SecretVersion(number, created_s, data)

    def versions(self, name: str) -> list[SecretVersion]:
        """Every version, the newest first."""
        columns = "SELECT number, created_s, data FROM secret_versions"
        query = f"{columns} WHERE name = ? ORDER BY number DESC"
        return [SecretVersion(*row) for row in self._connection.execute(query, (name,))]

    def delete(self, name: str) -> None:
        """Delete a secret and its versions."""
        with transaction(self._connection):
            for table in ("secret_versions", "secrets"):
                self._connection.execute(f"DELETE FROM {table} WHERE name = ?", (name,))  # noqa: S608

    def clear(self) -> None:
        """Delete every secret."""
        with transaction(self._connection):
            for table in ("secret_versions", "secrets"):
                self._connection.execute(f"DELETE FROM {table}")  # noqa: S608
