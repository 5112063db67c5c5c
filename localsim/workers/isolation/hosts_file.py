"""The file with the names of the VPC that every worker sees as its /etc/hosts."""

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

METADATA = ("169.254.169.254", "metadata.google.internal metadata")


class HostsFile:
    """Rewritten in place: workers have it mounted, and a new file would not be theirs."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.addresses: dict[str, str] = {}
        """Host name -> address, of every worker."""
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._write()

    def add(self, names: Mapping[str, str]) -> None:
        """Address by host name, the canonical one of an address first; raises OSError."""
        self.addresses.update(names)
        self._write()

    def remove(self, names: Iterable[str]) -> None:
        """Remove host names; raises OSError."""
        for name in names:
            self.addresses.pop(name, None)
        self._write()

    def _write(self) -> None:
        found: dict[str, list[str]] = {}
        for name, address in self.addresses.items():
            found.setdefault(address, []).append(name)
        rows = [("127.0.0.1", "localhost"), METADATA]
        rows += [(address, " ".join(names)) for address, names in found.items()]
        content = "".join(f"{address}\t{names}\n" for address, names in rows).encode()
        descriptor = os.open(self.path, os.O_WRONLY | os.O_CREAT, 0o644)
        try:
            os.pwrite(descriptor, content, 0)
            os.truncate(descriptor, len(content))
        finally:
            os.close(descriptor)
