"""Parts that nobody needs any more: removed, and told of when they cannot be."""

import contextlib
import re
from collections.abc import Callable, Container, Iterator
from typing import TypeVar

from tpuctl.errors import PreconditionError, TpuctlError
from tpuctl.models.transfer import TransferNotice, TransferPlan
from tpuctl.operations.stage.plan.names import PARTS_PREFIX
from tpuctl.operations.stage.transfer.part_layout import parts_prefix
from tpuctl.operations.stage.transfer.pool import Unit
from tpuctl.store.gcs.bulk import BulkBucket, ObjectInfo

ABANDONED_S = 7 * 24 * 3600.0
"""How much older than the newest part one is that nobody will compose."""

T = TypeVar("T")
Error = TypeVar("Error", bound=TpuctlError)


class Leftovers:
    """Removes parts that nobody needs from one bucket, and remembers those that stay."""

    def __init__(self, bulk: BulkBucket) -> None:
        self.bulk = bulk
        self._kept: dict[str, str] = {}
        """Parts that could not be removed, and why."""

    def units(self, plan: TransferPlan) -> Iterator[Unit]:
        """Yield units that remove parts of objects that are whole now, and parts of long ago."""
        parts: list[ObjectInfo] = []
        with contextlib.suppress(TpuctlError):  # another push will look again
            parts += self.bulk.list(PARTS_PREFIX)
        prefixes = {part.key.rpartition("/")[0] + "/" for part in parts}
        for transfer in plan.transfers if prefixes else ():
            if transfer.is_current and parts_prefix(transfer.key) in prefixes:
                yield _unit(self.remove_outdated, transfer.key)
        newest_s = max((part.updated_s for part in parts), default=0.0)  # by the bucket's own clock
        for part in parts:
            if newest_s - part.updated_s > ABANDONED_S:
                yield _unit(self.remove, part)

    def remove_outdated(self, key: str, mine: Container[str] = ()) -> None:
        """Remove the parts of an object that are older than it, and the parts `mine`.

        One of `mine` is younger when a request that was given up, and sent again, arrived after
        all.
        """
        with contextlib.suppress(TpuctlError):
            whole = self.bulk.head(key)
            for part in list(self.bulk.list(parts_prefix(key))):
                if part.key in mine or (whole is not None and part.updated <= whole.updated):
                    self.remove(part)

    def notices(self) -> Iterator[TransferNotice]:
        """Yield one notice about all parts that could not be removed, if there are any."""
        if self._kept:
            count, why = len(self._kept), next(iter(self._kept.values()))
            what = "1 part of a finished upload stays" if count == 1 else (
                f"{count} parts of finished uploads stay"
            )  # fmt: skip
            yield TransferNotice(
                f"{what} in {self.bulk.url}/{PARTS_PREFIX}, billed as what is stored: {why}"
            )

    def remove(self, part: ObjectInfo) -> None:
        """Remove a part; one that cannot be removed is named by `notices`."""
        try:
            self.bulk.delete(part.key, part.generation)
        except PreconditionError:
            pass  # somebody writes it again: it is needed
        except TpuctlError as error:
            self._kept[part.key] = str(error).removeprefix(f"{self.bulk.url}/{part.key}: ")


def _unit(remove: Callable[[T], None], subject: T) -> Unit:
    return lambda _report: remove(subject)


def error_of_object(error: Error, prefix: str, key: str) -> Error:
    """The same error, naming the object `key` where it named a part below `prefix`."""
    text = re.sub(re.escape(prefix) + r"[\w-]*", lambda _: key, str(error))
    if text == str(error):
        return error
    explained = type(error)(text, hint=error.hint)
    explained.__cause__ = error.__cause__
    return explained
