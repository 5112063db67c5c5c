"""The options of everything that creates a slice, under gcloud's names: one table."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING

from tpuctl.cli.shell.options import Row, Verb
from tpuctl.cli.shell.output import Usd
from tpuctl.cli.shell.parsing import items, pairs
from tpuctl.errors import LocalIOError, UsageError
from tpuctl.models.node import Node, NodeSpec
from tpuctl.operations.slices import cost, option_rules
from tpuctl.operations.slices.specs import data_disk, node_spec

if TYPE_CHECKING:
    from tpuctl.cli.shell.runtime import Runtime


@dataclass
class SliceFlags:
    """The values of the options of a slice, and of a request for slices."""

    accelerator_type: str = ""
    generation: str | None = None
    topology: str | None = None
    runtime_version: str = ""
    spot: bool = False
    reserved: bool = False
    reservation: str | None = None
    labels: str | None = None
    metadata: str | None = None
    metadata_from_file: str | None = None
    startup_script: str | None = None
    network: str | None = None
    subnetwork: str | None = None
    internal_ips: bool = False
    service_account: str | None = None
    scopes: str | None = None
    tags: str | None = None
    data_disk: tuple[str, ...] = field(default=())
    description: str = ""
    autocheckpoint: bool = False
    # Of a queued resource alone: cli/queued_resource.py
    node_id: str | None = None
    node_count: int | None = None
    node_prefix: str | None = None
    best_effort: bool = False
    flex_start: bool = False
    max_run_duration: str | None = None
    valid_after_duration: str | None = None
    valid_after_time: str | None = None
    valid_until_duration: str | None = None
    valid_until_time: str | None = None

    @property
    def given(self) -> frozenset[str]:
        """The names of the options that were given."""
        absent = vars(SliceFlags())
        return frozenset(name for name, value in vars(self).items() if value != absent[name])


def text_option(name: str, metavar: str, help: str, *short: str) -> Row:
    """A row of the table for an option with a value."""
    return name, (f"--{name.replace('_', '-')}", *short), {"metavar": metavar, "help": help}


def flag_option(name: str, help: str) -> Row:
    """A row of the table for an option without a value."""
    return name, (f"--{name.replace('_', '-')}",), {"is_flag": True, "help": help}


TABLE: tuple[Row, ...] = (
    text_option("accelerator_type", "TYPE", "Such as v5litepod-16.", "-t"),
    ("generation", ("--type",), {"metavar": "GENERATION", "help": "Such as V5LITE_POD."}),
    text_option("topology", "TOPOLOGY", "With --type, such as 4x4."),
    text_option("runtime_version", "VERSION", "Chosen by the type when absent."),
    flag_option("spot", "Cheaper, and may be taken away."),
    flag_option("reserved", "From a reservation, whichever has room."),
    text_option("reservation", "NAME", "From this reservation."),
    text_option("labels", "K=V,K=V", "Labels."),
    text_option("metadata", "K=V,K=V", "Metadata of the workers."),
    text_option("metadata_from_file", "K=FILE,K=FILE", "Metadata whose values are in files."),
    text_option(
        "startup_script", "FILE", "Run at every boot of every worker; `describe` shows how."
    ),
    text_option("network", "NETWORK", "VPC network."),
    text_option("subnetwork", "SUBNETWORK", "VPC subnetwork."),
    flag_option("internal_ips", "No external addresses."),
    text_option("service_account", "EMAIL", "Who the workers are on Google Cloud."),
    text_option("scopes", "SCOPE,SCOPE", "What the workers may do as that account; default: all."),
    text_option("tags", "TAG,TAG", "Network tags, for firewall rules."),
    (
        "data_disk",
        ("--data-disk",),
        {
            "metavar": "source=DISK,mode=MODE",
            "multiple": True,
            "help": "Attach projects/P/zones/Z/disks/D, read-write or read-only; repeatable.",
        },
    ),
    text_option("description", "TEXT", "What it is for."),
    flag_option("autocheckpoint", "Tell the program before maintenance, so that it can save."),
)


SLICE_FIELDS = frozenset(each.name for each in fields(NodeSpec))
"""An option of the same name goes there as it is typed, unless `slice_spec` parses it."""


class SliceVerb(Verb):
    """A verb that creates a slice."""

    table = TABLE

    @staticmethod
    def target_of(runtime: "Runtime") -> SliceFlags:
        """The object that keeps what was typed."""
        return runtime.slice_flags


class WorkerVerb(Verb):
    """A verb that reaches the workers of a node."""

    table = (
        text_option("dialer", "HOW", "direct, internal, iap, socks5://… or jump://…, as context."),
    )


def slice_spec(runtime: "Runtime", name: str) -> NodeSpec:
    """The checked slice that the options describe. Raises UsageError, LocalIOError."""
    flags = runtime.slice_flags
    option_rules.check_options(flags.given)
    typed = {key: value for key, value in vars(flags).items() if key in SLICE_FIELDS}
    parsed = {
        "name": name,
        "zone": runtime.context.zone,
        "provisioning": option_rules.provisioning(flags.given),
        "labels": pairs(flags.labels, "--labels"),
        "metadata": _metadata(flags),
        "scopes": items(flags.scopes),
        "tags": items(flags.tags),
        "data_disks": tuple(data_disk(pairs(disk, "--data-disk")) for disk in flags.data_disk),
    }
    return node_spec(
        NodeSpec(**{**typed, **parsed}),
        generation=flags.generation,
        topology=flags.topology,
        script=_read(flags.startup_script, "--startup-script"),
    )


def print_price(runtime: "Runtime", spec: NodeSpec, count: int = 1) -> None:
    """Print what `count` such slices cost together in an hour."""
    price = cost.hourly_price(spec.accelerator_type, spec.zone, spec.provisioning)
    times = f"{count} x " if count > 1 else ""
    what = f"{times}{spec.accelerator_type} {spec.provisioning} in {spec.zone}"
    if price is None:
        runtime.output.note(f"{what}: no public price known")
        return
    usd = Usd(price.usd_per_hour * count)
    runtime.output.note(f"{what}: {usd} USD/h (list price of {price.as_of})")


@contextmanager
def note_possible_request(runtime: "Runtime", what: str, look: str) -> Iterator[None]:
    """Say on an interrupt during the block that the request may have been made."""
    told = f"{what} may have been asked for; look: {look}"
    runtime.on_interrupt.append(told)
    yield
    runtime.on_interrupt.remove(told)


def add_interrupt_note(runtime: "Runtime", spec: NodeSpec | Node, end: str) -> None:
    """Say on an interrupt that the node goes on, its price, and what ends it."""
    usd = cost.usd_per_hour(spec.accelerator_type, spec.zone, spec.provisioning)
    price = f" at {Usd(usd)} USD/h when READY" if usd is not None else ""
    runtime.on_interrupt.append(f"node {spec.name!r} goes on{price}; end it with: {end}")


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
    if path is None:
        return None
    try:
        return Path(path).read_text("utf-8")
    except OSError as error:
        raise LocalIOError(
            f"{option}: cannot read {path}: {error.strerror}", hint="check the path"
        ) from error
    except UnicodeDecodeError as error:
        raise UsageError(
            f"{option}: {path} is not text in UTF-8", hint="metadata can only hold text"
        ) from error
