"""The public keys that users have of service accounts, as IAM keeps them; durable at once."""

import sqlite3
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ServiceAccountKey:
    """A key of a service account; its private half is with the user alone."""

    id: str
    email: str
    public_pem: str
    created_s: float
    origin: str
    """`GOOGLE_PROVIDED`, or `USER_PROVIDED` where only the public half was uploaded."""


class ServiceAccountKeyStore:
    """Keys by their IDs."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        """Create the table when it does not exist."""
        self._connection = connection
        connection.execute(
            "CREATE TABLE IF NOT EXISTS service_account_keys (id TEXT PRIMARY KEY, email TEXT,"
            " public_pem TEXT, created_s REAL, origin TEXT)"
        )

    def add(self, key: ServiceAccountKey) -> bool:
        """Store a new key; False when one of that ID exists."""
        row = (key.id, key.email, key.public_pem, key.created_s, key.origin)
        statement = "INSERT OR IGNORE INTO service_account_keys VALUES (?, ?, ?, ?, ?)"
        return self._connection.execute(statement, row).rowcount == 1

    def keys_of(self, email: str) -> list[ServiceAccountKey]:
        """The keys of an account, the oldest first."""
        query = "SELECT * FROM service_account_keys WHERE email = ? ORDER BY created_s, id"
        return [ServiceAccountKey(*row) for row in self._connection.execute(query, (email,))]

    def delete(self, email: str, key_id: str) -> bool:
        """Delete a key; False when the account has none of that ID."""
        statement = "DELETE FROM service_account_keys WHERE email = ? AND id = ?"
        return self._connection.execute(statement, (email, key_id)).rowcount == 1

    def clear(self) -> None:
        """Delete every key."""
        self._connection.execute("DELETE FROM service_account_keys")
