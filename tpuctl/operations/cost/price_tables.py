"""Newer prices than the catalog's, kept below TPUCTL_HOME."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from tpuctl import config
from tpuctl.errors import DamagedStateError, LocalIOError, UsageError
from tpuctl.models.money.price_book import DatedPrice, PriceBook, factors_text, parse_factors
from tpuctl.models.money.price_table import PriceTableError, own_form, read_table

DIRECTORY = "prices"
MOST_BYTES = 256 * 1024 * 1024
"""All SKUs of Compute Engine are 40 MiB."""
HINT = "the form of a table is in docs/cost.md"


class KeptTable(NamedTuple):
    """A table that was added."""

    path: Path
    prices: int
    newest: str
    """The date from which the newest of its prices holds."""


def load_book(home: Path, factors: str | None) -> PriceBook:
    """The prices of the catalog and of every table that is kept, as a context pays them.

    Raises DamagedStateError, UsageError.
    """
    try:
        known = parse_factors(factors or "")
    except ValueError as error:
        raise UsageError(
            f"price_factors of the context: {error}", hint="run: tpuctl context edit --help"
        ) from error
    return PriceBook(tuple(_kept_rows(home)), known)


def checked_factors(text: str | None) -> str | None:
    """The factors as a context keeps them; raises UsageError."""
    if text is None:
        return None
    try:
        return factors_text(parse_factors(text))
    except ValueError as error:
        raise UsageError(
            f"--price-factor: {error}", hint="write 0.8, or on-demand=0.45,spot=0.9"
        ) from error


def add_table(home: Path, source: str, read_object: Callable[[str], bytes]) -> KeptTable:
    """Check a table and keep it; `read_object` reads `gs://BUCKET/OBJECT`.

    Raises UsageError (what is wrong with it, and nothing is changed), LocalIOError and the errors
    of Cloud Storage.
    """
    try:
        rows = read_table(_document(source, read_object))
    except PriceTableError as error:
        raise UsageError(f"{source} {error}", hint=HINT) from error
    data = json.dumps(own_form(rows), indent=1).encode()
    path = home / DIRECTORY / f"{hashlib.sha256(data).hexdigest()[:16]}.json"
    config.write_private(path, data)
    return KeptTable(path, len(rows), max(row.as_of for row in rows))


def _kept_rows(home: Path) -> Iterator[DatedPrice]:
    """The rows of all tables; of two for the same moment that of the file written last counts."""
    try:
        paths = sorted(
            (home / DIRECTORY).glob("*.json"), key=lambda path: (path.stat().st_mtime_ns, path.name)
        )
        for path in paths:
            yield from read_table(json.loads(path.read_text("utf-8")))
    except (OSError, ValueError) as error:
        raise DamagedStateError(
            f"a table of prices in {home / DIRECTORY} cannot be read: {error}",
            hint="move it away, and run: tpuctl catalog prices --update FILE",
        ) from error


def _document(source: str, read_object: Callable[[str], bytes]) -> Any:
    if source.startswith("gs://"):
        return _json(read_object(source))
    from tpuctl import bounded_yaml  # 20 ms that whoever only wants prices need not pay

    path = Path(source)
    try:
        if path.suffix in (".yaml", ".yml"):
            return bounded_yaml.load_file(path)
        with path.open("rb") as file:
            return _json(file.read(MOST_BYTES + 1))
    except OSError as error:
        raise LocalIOError(f"cannot read {source}: {error.strerror}") from error
    except bounded_yaml.YamlError as error:
        raise PriceTableError(str(error)) from error


def _json(data: bytes) -> Any:
    if len(data) > MOST_BYTES:
        raise PriceTableError(f"is larger than {MOST_BYTES // 1024**2} MiB")
    try:
        return json.loads(data)
    except ValueError as error:
        raise PriceTableError(f"is not JSON: {error}") from error
