"""A copy as it goes: a bar on a terminal; elsewhere a line now and then, for logs are read."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, TextIO, cast

from tpuctl.byte_size import count_text, size_text
from tpuctl.cli.shell.progress_display import progress_console
from tpuctl.cli.shell.runtime import Runtime

if TYPE_CHECKING:
    from rich.console import Console

_LINE_EVERY_S = 5.0
_LISTING_TEXT = "listing what is to be copied"
"""In place of figures until the copy itself says how much is to come."""


@dataclass
class CopyProgress:
    """How far a copy is; `show` is called when that changed."""

    objects: int
    total_bytes: int
    show: Callable[["CopyProgress"], None]
    done_objects: int = 0
    done_bytes: int = 0

    @property
    def is_whole(self) -> bool:
        """All that there is to copy is there; of anything else no bar stays on the screen."""
        return 0 < self.objects <= self.done_objects and self.total_bytes <= self.done_bytes

    def expect(self, objects: int, size_bytes: int) -> None:
        """So much more is to come."""
        self.objects += objects
        self.total_bytes += size_bytes
        self.show(self)

    def advance(self, size_bytes: int) -> None:
        """So many more bytes are there."""
        self.done_bytes += size_bytes
        self.show(self)

    def finished(self) -> None:
        """One object more is done with."""
        self.done_objects += 1
        self.show(self)


@contextmanager
def show_copy(
    runtime: Runtime, objects: int | None = None, total_bytes: int = 0
) -> Iterator[CopyProgress]:
    """Show a copy of so many objects; None where the copy itself says how much is to come."""
    count = objects or 0
    if runtime.shared.quiet or objects == 0:
        yield CopyProgress(count, total_bytes, lambda _: None)
    elif runtime.err.isatty():
        yield from _bar(runtime, count, total_bytes)
    else:
        yield CopyProgress(count, total_bytes, _lines(runtime))


def _lines(runtime: Runtime) -> Callable[[CopyProgress], None]:
    started_s = last_s = time.monotonic()

    def show(watch: CopyProgress) -> None:
        nonlocal last_s
        now_s = time.monotonic()
        if now_s - last_s < _LINE_EVERY_S:
            return
        last_s = now_s
        rate = watch.done_bytes / (now_s - started_s)
        left_s = (watch.total_bytes - watch.done_bytes) / rate if rate > 0 else 0
        runtime.output.note(
            f"{size_text(watch.done_bytes)} of {size_text(watch.total_bytes)}, "
            f"{watch.done_objects} of {count_text(watch.objects, 'object')}, "
            f"{size_text(rate)}/s, {left_s:.0f} s left"
        )

    return show


def _bar(runtime: Runtime, objects: int, total_bytes: int) -> Iterator[CopyProgress]:
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    known = (
        BarColumn(),
        DownloadColumn(binary_units=True),
        TextColumn("{task.fields[objects]}"),
        TextColumn("{task.fields[rate]}"),
        TimeRemainingColumn(),
    )
    unknown = BarColumn(), TextColumn(_LISTING_TEXT)
    columns = known if objects else unknown
    console = progress_console(runtime)
    with Progress(*columns, console=console) as progress, _above_the_bar(runtime, console):
        total = total_bytes if objects else None
        task = progress.add_task("", total=total, objects=f"0/{objects}", rate="")

        def show(watch: CopyProgress) -> None:
            if not watch.objects:
                return
            progress.columns = known
            done, speed = f"{watch.done_objects}/{watch.objects}", progress.tasks[0].speed
            rate, total = f"{size_text(speed)}/s" if speed else "", watch.total_bytes
            progress.update(task, total=total, completed=watch.done_bytes, objects=done, rate=rate)

        watch = CopyProgress(objects, total_bytes, show)
        try:
            yield watch
        finally:
            progress.live.transient = not watch.is_whole


@contextmanager
def _above_the_bar(runtime: Runtime, console: "Console") -> Iterator[None]:
    """What is told meanwhile goes above the bar: written straight away it would end up inside."""
    from rich.file_proxy import FileProxy

    output = runtime.output
    err = output.err
    output.err = cast("TextIO", FileProxy(console, err))
    try:
        yield
    finally:
        output.err = err


def warn_of_egress_charge(runtime: Runtime, bucket: str, size_bytes: int) -> None:
    """Say what workers of the context's zone pay for reading so many bytes of a bucket."""
    from tpuctl.operations.stage.plan.egress_price import egress_warning

    if warning := egress_warning(runtime.bulk(bucket), runtime.context.zone, size_bytes):
        runtime.output.warn(warning)
