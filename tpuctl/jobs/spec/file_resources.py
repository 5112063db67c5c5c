"""The `resources` of a job file, checked against the catalog.

TensorFlow on TPUs has runtime versions of its own: a job that uses it boots one of them.
"""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from tpuctl import catalog
from tpuctl.errors import LocalIOError, UsageError
from tpuctl.jobs.spec.file_slice_options import ResolvePath, read_slice_options, zones_of_disks
from tpuctl.jobs.spec.job_file_schema import Document
from tpuctl.models.job import Resources

CATALOG: Mapping[str, tuple[str, str]] = {
    "accelerator type": ("accelerators", "types"),
    "zone": ("zones", "zones"),
    "runtime version": ("runtime_version", "runtimes"),
}
"""The key of `resources` that names each kind of thing, and the command that lists them."""

AUTO = "auto"
TENSORFLOW = "tensorflow"
REQUIREMENTS = "requirements.txt"
_PACKAGE = re.compile(r"(?<![\w.-])tensorflow(-tpu)?(?![\w.-])", re.IGNORECASE)
"""The packages that can use TPUs: tensorflow-cpu or tensorflow-datasets feed other frameworks."""


def read_resources(
    document: Document, setup: str | None, workdir: str | None, resolve: ResolvePath
) -> Resources:
    """The slices that a job asks for; raises UsageError, LocalIOError."""
    options = read_slice_options(document, resolve)
    zones = zones_of_disks(document, options, document.get("resources.zones", []))
    wanted = document.get("resources.runtime_version", AUTO)
    types = _types(document)
    topology = document.get("resources.topology")
    slices = document.get("resources.num_slices", 1)
    tensorflow = uses_tensorflow(setup, workdir)
    try:
        for zone in zones:
            if zone not in catalog.zones():
                raise catalog.UnknownError("zone", zone, catalog.nearest(zone, catalog.zones()))
        kinds = [catalog.accelerator_type(name) for name in types]
        each = kinds or (None,)
        versions = {choose_runtime(kind, wanted, tensorflow=tensorflow) for kind in each}
    except catalog.UnknownError as error:
        raise _unknown(document, error) from error
    if len(versions) > 1:
        raise UsageError(
            f"{document.place('resources.accelerators')}: no runtime version with TensorFlow is "
            f"right for all of {', '.join(types)}",
            hint="list types with one worker only, or with several workers only",
        )
    for kind in each:
        _check_topology(document, kind, topology)
        _check_slices(document, kind, slices)
    _check_zones(document, kinds, zones)
    return Resources(
        accelerators=types[0] if types else None,
        topology=topology,
        zones=tuple(zones),
        use_spot=document.get("resources.use_spot", False),
        num_slices=slices,
        runtime_version=versions.pop(),
        alternatives=types[1:],
        options=options,
    )


def _types(document: Document) -> tuple[str, ...]:
    """The accelerator types that will do, each of them once."""
    given = document.get("resources.accelerators") or []
    types = (given,) if isinstance(given, str) else tuple(given)
    for name in types:
        if types.count(name) > 1:
            raise UsageError(f"{document.place('resources.accelerators')} has {name} twice")
    return types


def _check_topology(
    document: Document, kind: catalog.AcceleratorType | None, topology: str | None
) -> None:
    if topology and (kind is None or kind.topology != topology):
        has = f"{kind.name} has topology {kind.topology}" if kind else "it needs accelerators too"
        raise UsageError(f"{document.place('resources.topology')} is {topology!r}: {has}")


def _check_slices(document: Document, kind: catalog.AcceleratorType | None, slices: int) -> None:
    if slices > 1 and kind and not catalog.generation(kind.generation).multislice:
        place = document.place("resources.num_slices")
        raise UsageError(
            f"{place}: slices of {kind.name} cannot work together",
            hint="take v4 or newer: tpuctl catalog types",
        )


def _unknown(document: Document, error: catalog.UnknownError) -> UsageError:
    key, noun = CATALOG[error.kind]
    near = f"; did you mean {' or '.join(error.nearest)}?" if error.nearest else ""
    return UsageError(
        f"{document.place(f'resources.{key}')}: unknown {error.kind} {error.name!r}{near}",
        hint=f"run: tpuctl catalog {noun}",
    )


def _check_zones(
    document: Document, kinds: Sequence[catalog.AcceleratorType], zones: list[str]
) -> None:
    """Each zone of the list once, with any of the types, and each type in any of the zones."""
    place = document.place("resources.zones")
    offered = {kind.name: catalog.zones_of(kind.name) for kind in kinds}
    for zone in zones:
        if zones.count(zone) > 1:
            raise UsageError(f"{place} has {zone} twice")
        if kinds and not any(zone in found for found in offered.values()):
            raise UsageError(
                f"{place}: {' or '.join(offered)} is not offered in {zone}",
                hint=_offer_text(offered[kinds[0].name]),
            )
    for name, found in offered.items():
        if zones and not set(zones) & set(found):
            raise UsageError(
                f"{place}: none of them offers {name}, which resources.accelerators lists",
                hint=_offer_text(found),
            )


def _offer_text(zones: Sequence[str]) -> str:
    return f"it is in: {', '.join(zones)}" if zones else "run: tpuctl catalog types"


def choose_runtime(
    kind: catalog.AcceleratorType | None, wanted: str, *, tensorflow: bool
) -> str | None:
    """The version to ask for; None is the one that Google recommends for the type.

    Raises catalog.UnknownError.
    """
    if wanted == TENSORFLOW or (wanted == AUTO and tensorflow):
        return catalog.tensorflow_runtime_version(kind.name) if kind else None
    if wanted == AUTO:
        return None
    known = catalog.runtime_versions(kind.generation if kind else None)
    if wanted not in known and not wanted.startswith(catalog.TENSORFLOW_PREFIX):
        near = catalog.nearest(wanted, (*known, AUTO, TENSORFLOW))
        raise catalog.UnknownError("runtime version", wanted, near)
    return wanted


def uses_tensorflow(setup: str | None, workdir: str | None) -> bool:
    """Whether `setup`, or requirements.txt in the workdir, names TensorFlow's package.

    Raises LocalIOError.
    """
    lines = [*(setup or "").split("\n"), *_requirements(workdir).split("\n")]
    return any(_PACKAGE.search(line.partition("#")[0]) for line in lines)


def _requirements(workdir: str | None) -> str:
    if workdir is None:
        return ""
    path = Path(workdir, REQUIREMENTS)
    try:
        return path.read_text("utf-8", "replace")
    except FileNotFoundError:
        return ""
    except OSError as error:
        raise LocalIOError(f"cannot read {path}: {error.strerror}") from error
