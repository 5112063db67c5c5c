"""The options of everything that creates a slice, under gcloud's names: one table."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tpuctl.cli.shell.options import Row, Verb, completed_by, flag, option, rows_of
from tpuctl.cli.shell.parsing import items, pairs, seconds
from tpuctl.cli.shell.tables.values import Usd
from tpuctl.errors import UsageError, unreadable_error
from tpuctl.models import option_rules
from tpuctl.models.limits import slice_lifetime
from tpuctl.models.node import Node, NodeSpec
from tpuctl.models.slice_options import applied_defaults, boot_disk, data_disk, defaults_text

if TYPE_CHECKING:
    from tpuctl.cli.shell.runtime import Runtime
    from tpuctl.models.queued_resource import QueuedResource


@dataclass
class SliceFlags:
    """The options of a slice, by the names of their values."""

    accelerator_type: str = option(
        "Such as v5litepod-16.",
        "-t",
        metavar="TYPE",
        default="",
        autocompletion=completed_by("type"),
    )
    generation: str | None = option(
        "Such as V5LITE_POD.",
        long="--type",
        metavar="GENERATION",
        autocompletion=completed_by("gcloud type"),
    )
    topology: str | None = option(
        "With --type, such as 4x4.", metavar="TOPOLOGY", autocompletion=completed_by("topology")
    )
    runtime_version: str = option(
        "Chosen by the type when absent.",
        metavar="VERSION",
        default="",
        autocompletion=completed_by("runtime version"),
    )
    spot: bool = flag("Cheaper, and may be taken away.")
    reserved: bool = flag("From a reservation, whichever has room.")
    reservation: str | None = option("From this reservation.", metavar="NAME")
    labels: str | None = option("Labels.", metavar="K=V,K=V")
    metadata: str | None = option("Metadata of the workers.", metavar="K=V,K=V")
    metadata_from_file: str | None = option(
        "Metadata whose values are in files.", metavar="K=FILE,K=FILE"
    )
    startup_script: str | None = option(
        "Run at every boot of every worker; `describe` shows how.", metavar="FILE"
    )
    network: str | None = option("VPC network.", metavar="NETWORK")
    subnetwork: str | None = option("VPC subnetwork.", metavar="SUBNETWORK")
    internal_ips: bool = flag("No external addresses.")
    no_internal_ips: bool = flag("External addresses, although the context says internal ones.")
    service_account: str | None = option("Who the workers are on Google Cloud.", metavar="EMAIL")
    scopes: str | None = option(
        "What the workers may do as that account; default: all.", metavar="SCOPE,SCOPE"
    )
    tags: str | None = option("Network tags, for firewall rules.", metavar="TAG,TAG")
    data_disk: tuple[str, ...] = option(
        "Attach projects/P/zones/Z/disks/D, read-write or read-only; repeatable.",
        metavar="source=DISK,mode=MODE",
        multiple=True,
        default=(),
    )
    boot_disk: str | None = option(
        "How the boot disk is encrypted.", metavar="kms-key=KEY,confidential-compute=true"
    )
    shielded_secure_boot: bool = flag("Workers are Shielded VMs with secure boot.")
    description: str = option("What it is for.", metavar="TEXT", default="")
    autocheckpoint: bool = flag("Tell the program before maintenance, so that it can save.")
    ttl: str | None = option("Delete it this long after its creation.", metavar="DURATION")
    delete_when_idle: str | None = option(
        "Delete it when no worker has been used for this long.", metavar="DURATION"
    )
    over_budget: bool = flag("Although it exceeds a limit of `context budget`.")

    @property
    def given(self) -> frozenset[str]:
        """The names of the options that were given."""
        absent = vars(type(self)())
        return frozenset(name for name, value in vars(self).items() if value != absent[name])


@dataclass
class RequestFlags(SliceFlags):
    """The options of a request for slices: those of a slice, and its own."""

    node_id: str | None = option("Name of its node; default: the same.", metavar="NAME")
    node_count: int | None = option("A multislice of N nodes.", metavar="N", type=int)
    node_prefix: str | None = option("With --node-count: PREFIX-0, PREFIX-1, …", metavar="PREFIX")
    best_effort: bool = flag("Whatever is left over; may be taken away.")
    flex_start: bool = flag("For --max-run-duration, when it can be had in one piece.")
    max_run_duration: str | None = option(
        "With --flex-start: then the nodes are deleted.", metavar="DURATION"
    )
    valid_after_duration: str | None = option("Not before this long from now.", metavar="DURATION")
    valid_after_time: str | None = option(
        "Not before this time, such as 2026-12-01T09:00:00Z.", metavar="TIME"
    )
    valid_until_duration: str | None = option("Give up this long from now.", metavar="DURATION")
    valid_until_time: str | None = option("Give up at this time.", metavar="TIME")


SLICE_FIELDS = frozenset(each.name for each in fields(NodeSpec))
"""An option of the same name goes there as it is typed, unless `slice_spec` parses it."""


class SliceVerb(Verb):
    """A verb that creates a slice."""

    table = rows_of(SliceFlags)

    @staticmethod
    def target_of(runtime: "Runtime") -> SliceFlags:
        """The object that keeps what was typed."""
        return runtime.slice_flags


class RequestVerb(SliceVerb):
    """A verb that files a request for slices."""

    table = rows_of(RequestFlags)


class WorkerVerb(Verb):
    """A verb that reaches the workers of a node."""

    table: tuple[Row, ...] = (
        (
            "dialer",
            ("--dialer",),
            {
                "metavar": "HOW",
                "help": "direct, internal, iap, socks5://… or jump://…, as context.",
                "autocompletion": completed_by("dialer"),
            },
        ),
    )


def slice_spec(runtime: "Runtime", name: str) -> NodeSpec:
    """The checked slice that the options describe.

    Raises UsageError, NotFoundError, LocalIOError.
    """
    from tpuctl.operations.slices.specs import node_spec

    flags = runtime.slice_flags
    option_rules.check_options(flags.given)
    typed = {key: value for key, value in vars(flags).items() if key in SLICE_FIELDS}
    parsed = {
        "name": name,
        "zone": runtime.context.zone,
        "provisioning": option_rules.provisioning(flags.given),
        "labels": pairs(flags.labels, "--labels") | lifetime_labels(flags),
        "metadata": _metadata(flags),
        "scopes": items(flags.scopes),
        "tags": items(flags.tags),
        "data_disks": tuple(data_disk(pairs(disk, "--data-disk")) for disk in flags.data_disk),
        "boot_disk": boot_disk(pairs(flags.boot_disk, "--boot-disk")),
        **_context_defaults(runtime),
    }
    return node_spec(
        NodeSpec(**{**typed, **parsed}),
        generation=flags.generation,
        topology=flags.topology,
        script=_read(flags.startup_script, "--startup-script"),
    )


def lifetime_labels(flags: SliceFlags) -> dict[str, str]:
    """The labels that limit how long the slice lives. Raises UsageError."""
    return slice_lifetime.labels_of(seconds(flags.ttl), seconds(flags.delete_when_idle))


def changed_lifetime(ttl: str | None, delete_when_idle: str | None) -> dict[str, str]:
    """The same of what was typed for a node that is there: an empty text removes a label."""
    typed = dict(zip(slice_lifetime.LIFETIME_LABELS, (ttl, delete_when_idle), strict=True))
    labels = slice_lifetime.labels_of(seconds(ttl), seconds(delete_when_idle))
    return labels | {name: "" for name, text in typed.items() if text == ""}


def print_price(runtime: "Runtime", spec: NodeSpec, count: int = 1) -> None:
    """Print what `count` such slices cost together in an hour, and what the context decided."""
    from tpuctl.operations.slices import cost

    price = cost.hourly_price(spec.accelerator_type, spec.zone, spec.provisioning)
    times = f"{count} x " if count > 1 else ""
    what = f"{times}{spec.accelerator_type} {spec.provisioning} in {spec.zone}"
    if price is None:
        runtime.output.note(f"{what}: no public price known")
    else:
        usd, factor = Usd(price.usd_per_hour * count), cost.price_book().factor(spec.provisioning)
        paid = "" if factor is None else f"{factor:g} of the "
        runtime.output.note(f"{what}: {usd} USD/h ({paid}list price of {price.as_of})")
    if text := defaults_text(_context_defaults(runtime)):
        runtime.output.note(text)


def require_within_limit(
    runtime: "Runtime",
    spec: "NodeSpec | Node | QueuedResource",
    what: str,
    count: int = 1,
    own_names: Sequence[str] = (),
) -> None:
    """Refuse `count` slices that exceed what the context may cost, unless --over-budget is given.

    `own_names` are not counted as what runs. Raises RefusedError.
    """
    if runtime.check_limit is None:
        return
    from tpuctl.operations.slices import spending_check

    wanted = spending_check.wanted_slices(spec, count, own_names)
    warning = spending_check.require_within_limit(
        runtime.check_limit, wanted, what, over_budget=runtime.slice_flags.over_budget
    )
    if warning:
        runtime.output.warn(warning)


@contextmanager
def note_possible_request(runtime: "Runtime", what: str, look: str) -> Iterator[None]:
    """Say on an interrupt during the block that the request may have been made."""
    told = f"{what} may have been requested; run: {look}"
    runtime.on_interrupt.append(told)
    yield
    runtime.on_interrupt.remove(told)


def add_interrupt_note(runtime: "Runtime", spec: NodeSpec | Node, end: str = "delete") -> None:
    """Say on an interrupt that the node goes on, its price, how to wait for it and to end it."""
    from tpuctl.operations.slices import cost

    usd = cost.usd_per_hour(spec.accelerator_type, spec.zone, spec.provisioning)
    price = f" at {Usd(usd)} USD/h when READY" if usd is not None else ""
    verbs = [f"tpuctl node {verb} {spec.name} --zone {spec.zone}" for verb in ("wait", end)]
    runtime.on_interrupt.append(
        f"node {spec.name!r} goes on{price}; wait for it: {verbs[0]}; end it with: {verbs[1]}"
    )


def _context_defaults(runtime: "Runtime") -> dict[str, Any]:
    """What the context decides of the slice, because no option does."""
    flags = runtime.slice_flags
    given = flags.given | ({"internal_ips"} if flags.no_internal_ips else set())
    return applied_defaults(runtime.context.slice_defaults, given)


def _metadata(flags: SliceFlags) -> dict[str, str]:
    typed = pairs(flags.metadata, "--metadata")
    files = pairs(flags.metadata_from_file, "--metadata-from-file")
    twice = sorted(typed.keys() & files.keys())
    if twice:
        raise UsageError(
            f"--metadata and --metadata-from-file both give {twice[0]!r}", hint="leave one out"
        )
    read = {key: _read(path, "--metadata-from-file") or "" for key, path in files.items()}
    return {**typed, **read}


def _read(path: str | None, option: str) -> str | None:
    """The text of a file that an option names. Raises NotFoundError, LocalIOError, UsageError."""
    if path is None:
        return None
    try:
        return Path(path).read_text("utf-8")
    except OSError as error:
        raise unreadable_error(path, error, place=option) from error
    except UnicodeDecodeError as error:
        raise UsageError(
            f"{option}: {path} is not text in UTF-8", hint="metadata can only hold text"
        ) from error
