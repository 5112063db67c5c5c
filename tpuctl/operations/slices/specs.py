"""What the user typed, checked and completed before anything is asked of the API."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace

from tpuctl import catalog
from tpuctl.errors import NotFoundError, UsageError
from tpuctl.models import slice_options, startup_script
from tpuctl.models.node import ListedNode, NodeSpec
from tpuctl.models.queued_resource import QueuedResource, QueuedResourceSpec

NAME = re.compile(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?")
LEAST_NODES = 2


def node_spec(
    draft: NodeSpec,
    *,
    generation: str | None = None,
    topology: str | None = None,
    script: str | None = None,
) -> NodeSpec:
    """A checked and completed slice from options; raises UsageError.

    Its accelerator type may be "" where `generation` and `topology` name it, its runtime version ""
    for that of the type. `script` is the text of a startup script, which goes into the metadata.
    """
    check_name(draft.name)
    slice_options.check_labels(draft.labels)
    _check_details(draft)
    try:
        kind = _accelerator_type(draft.accelerator_type, generation, topology)
        check_zone(kind.name, draft.zone)
    except catalog.UnknownError as error:
        raise unknown_name_error(error) from error
    return replace(
        draft,
        accelerator_type=kind.name,
        runtime_version=_runtime_version(kind, draft.runtime_version),
        metadata=_metadata(draft.metadata, script),
        scopes=slice_options.full_scopes(draft.scopes),
    )


def check_name(name: str) -> None:
    """Check a name that also becomes a host name, by the API's rule; raises UsageError."""
    if not NAME.fullmatch(name):
        raise UsageError(
            f"{name!r} is not a valid name",
            hint="use 1 to 63 of a-z, 0-9 and -, a letter first, no - at the end",
        )


def unknown_name_error(error: catalog.UnknownError) -> UsageError:
    """The UsageError for a name that the catalog lacks, with the nearest known ones."""
    noun = {"zone": "zones", "runtime version": "runtimes"}.get(error.kind, "types")
    near = f"did you mean {' or '.join(error.nearest)}? " if error.nearest else ""
    return UsageError(
        f"unknown {error.kind} {error.name!r}", hint=f"{near}run: tpuctl catalog {noun}"
    )


def check_request(spec: QueuedResourceSpec, now_s: float) -> QueuedResourceSpec:
    """The request itself if it is valid; raises UsageError."""
    if spec.node_count is not None:
        _check_multislice(spec, spec.node_count)
    slice_options.check_run_duration(spec.max_run_duration_s)
    _check_window(spec, now_s)
    return spec


def missing_error(
    noun: str, name: str, zone: str, items: Iterable[ListedNode | QueuedResource], list_command: str
) -> NotFoundError:
    """The error for a name that is not in a zone; names the zones of `items` that have it."""
    known = list(items)
    elsewhere = sorted(item.zone for item in known if item.name == name)
    if elsewhere:
        return NotFoundError(
            f"{noun} {name!r} is not in {zone} but in {', '.join(elsewhere)}",
            hint=f"add: --zone {elsewhere[0]}",
        )
    slices = sorted(item.name for item in known if item.name.startswith(f"{name}-"))  # of a job
    near = tuple(slices[:3]) or catalog.nearest(name, {item.name for item in known})
    meant = f"did you mean {' or '.join(near)}? " if near else ""
    return NotFoundError(
        f"there is no {noun} {name!r} in {zone}", hint=f"{meant}run: {list_command}"
    )


def _check_multislice(spec: QueuedResourceSpec, count: int) -> None:
    if count < LEAST_NODES:
        raise UsageError(
            f"--node-count must be greater than 1, not {count}", hint="leave it out for one node"
        )
    kind = catalog.accelerator_type(spec.node.accelerator_type)
    if not catalog.generation(kind.generation).multislice:
        raise UsageError(
            f"{kind.name} cannot be part of a multislice",
            hint="take v4 or newer: tpuctl catalog types",
        )
    check_name(f"{spec.node.name}-{count - 1}")


def _check_window(spec: QueuedResourceSpec, now_s: float) -> None:
    queueing = spec.queueing
    until_s = queueing.until_s
    if queueing.until_duration_s is not None:
        until_s = now_s + queueing.until_duration_s
    if until_s is not None and until_s <= now_s:
        raise UsageError("the request would end before it begins", hint="choose a later time")
    both = queueing.interval(now_s)
    if both is not None and both[0] >= both[1]:
        raise UsageError(
            "the request would end before it may be granted",
            hint="let --valid-until-... be later than --valid-after-...",
        )


def _check_details(draft: NodeSpec) -> None:
    if len(draft.description) > slice_options.MOST_DESCRIPTION:
        raise UsageError(
            f"--description has {len(draft.description)} characters",
            hint=f"{slice_options.MOST_DESCRIPTION} are allowed",
        )
    slice_options.check_disks(draft.data_disks, draft.zone)


def _metadata(metadata: Mapping[str, str], script: str | None) -> Mapping[str, str]:
    if script is None:
        return metadata
    if startup_script.KEY in metadata:
        raise UsageError(
            f"--startup-script and the metadata both give {startup_script.KEY!r}",
            hint="leave one out",
        )
    return {**metadata, startup_script.KEY: startup_script.wrap_script(script)}


def _accelerator_type(
    name: str, generation: str | None, topology: str | None
) -> catalog.AcceleratorType:
    if name and not (generation or topology):
        return catalog.accelerator_type(name)
    if generation and topology and not name:
        return catalog.accelerator_type_of_topology(generation, topology)
    raise UsageError(
        "no slice is named: give --accelerator-type, or --type and --topology together",
        hint="run: tpuctl catalog types",
    )


def check_zone(type_name: str, zone: str) -> None:
    """Check that a zone offers a type; raises UsageError, and catalog.UnknownError for the zone."""
    if zone not in catalog.zones():
        raise catalog.UnknownError("zone", zone, catalog.nearest(zone, catalog.zones()))
    offered = catalog.zones_of(type_name)
    if zone not in offered:
        nowhere = "no zone offers it through the Cloud TPU API; run: tpuctl catalog types"
        raise UsageError(
            f"{type_name} is not offered in {zone}",
            hint=f"it is in: {', '.join(offered)}" if offered else nowhere,
        )


def _runtime_version(kind: catalog.AcceleratorType, wanted: str) -> str:
    if not wanted:
        return catalog.default_runtime_version(kind.name)
    known = catalog.runtime_versions(kind.generation)
    if wanted not in known and not wanted.startswith("tpu-vm-tf-"):
        error = catalog.UnknownError("runtime version", wanted, catalog.nearest(wanted, known))
        raise unknown_name_error(error)
    return wanted
