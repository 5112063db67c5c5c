"""The part of `resources` in a job file that `qr create` has options for."""

from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

from tpuctl.errors import UsageError, unreadable_error
from tpuctl.jobs.spec.job_file_schema import Document
from tpuctl.models import option_rules, slice_options, startup_script
from tpuctl.models.limits import slice_lifetime
from tpuctl.models.node import BootDisk, DataDisk
from tpuctl.models.slice_options import SliceOptions

SWITCH_BYTES = 64 * 1024
"""How much of the startup script's metadata value the dead man's switch may take."""
MOST_SCRIPT = startup_script.MOST_BYTES - SWITCH_BYTES
ResolvePath = Callable[[str, str], Path]
"""(a path in the job file, the place it stands at) -> the path itself; raises UsageError."""


def read_slice_options(document: Document, resolve: ResolvePath) -> SliceOptions:
    """What a job file says of its slices beside type and zones.

    Raises UsageError, NotFoundError, LocalIOError.
    """
    plain = {
        each.name: document.get(f"resources.{each.name}")
        for each in fields(SliceOptions)
        if f"resources.{each.name}" in document.values
    }
    parsed: dict[str, Any] = {
        "labels": {**document.below("resources.labels"), **_lifetime_labels(document)},
        "metadata": document.below("resources.metadata"),
        "scopes": slice_options.full_scopes(document.get("resources.scopes", ())),
        "tags": tuple(document.get("resources.tags", ())),
        "data_disks": _data_disks(document),
        "boot_disk": _boot_disk(document),
        "startup_script": _script(document, resolve),
        "max_run_duration_s": document.get("resources.max_run_duration"),
    }
    options = SliceOptions(**{**plain, **parsed})
    _check(document, options)
    return options


def zones_of_disks(document: Document, options: SliceOptions, zones: list[str]) -> list[str]:
    """The zones of a job: those given, or the one that its data disks are in.

    Raises UsageError for disks that cannot be attached in all of them.
    """
    found = zones or list(slice_options.zones_of_disks(options.data_disks))
    for zone in found:
        slice_options.check_disks(options.data_disks, zone, document.place("resources.data_disks"))
    return found


def _check(document: Document, options: SliceOptions) -> None:
    """Refuse what does not go together, by the rules of `qr create`; raises UsageError."""
    given = {name.removesuffix("_s") for name in options.given}
    if document.get("resources.use_spot"):
        given.add("spot")
    option_rules.check_options(
        frozenset(given), lambda name: document.place(f"resources.{_key_of(name)}")
    )
    slice_options.check_run_duration(
        options.max_run_duration_s, document.place("resources.max_run_duration")
    )
    if len(options.description) > slice_options.MOST_DESCRIPTION:
        raise UsageError(
            f"{document.place('resources.description')} has {len(options.description)} characters",
            hint=f"{slice_options.MOST_DESCRIPTION} are allowed",
        )


def _lifetime_labels(document: Document) -> dict[str, str]:
    """The labels that limit how long a slice lives. Raises UsageError."""
    ttl_s, idle_s = (document.get(f"resources.{name}") for name in ("ttl", "delete_when_idle"))
    return slice_lifetime.labels_of(ttl_s, idle_s)


def _key_of(name: str) -> str:
    return "use_spot" if name == "spot" else name


def _data_disks(document: Document) -> tuple[DataDisk, ...]:
    place = document.place("resources.data_disks")
    disks = []
    for text in document.get("resources.data_disks", ()):
        parts = dict(part.partition("=")[::2] for part in text.split(","))
        disks.append(slice_options.data_disk(parts, place))
    return tuple(disks)


def _boot_disk(document: Document) -> BootDisk | None:
    if "resources.boot_disk" not in document.values:
        return None
    disk = BootDisk(**document.below("resources.boot_disk"))
    slice_options.check_boot_disk(disk, document.place("resources.boot_disk"))
    return disk


def _script(document: Document, resolve: ResolvePath) -> str | None:
    """The text of the startup script, short enough to stand beside the dead man's switch."""
    name = document.get("resources.startup_script")
    if name is None:
        return None
    place = document.place("resources.startup_script")
    path = resolve(name, place)
    try:
        text = path.read_text("utf-8")
    except OSError as error:
        raise unreadable_error(path, error, place=place) from error
    except UnicodeDecodeError as error:
        raise UsageError(
            f"{place}: {path} is not text in UTF-8", hint="metadata can only hold text"
        ) from error
    if len(text.encode()) > MOST_SCRIPT:
        raise UsageError(
            f"{place} has {len(text.encode())} bytes",
            hint=f"{MOST_SCRIPT} are allowed: let it fetch the rest from Cloud Storage",
        )
    return text
