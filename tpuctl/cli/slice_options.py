"""The options of everything that creates a slice, under gcloud's names: one table."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tpuctl.cli.options import Row, Verb, options_of
from tpuctl.cli.output import Usd
from tpuctl.cli.parsing import pairs
from tpuctl.errors import UsageError
from tpuctl.models.node import NodeSpec
from tpuctl.operations import cost
from tpuctl.operations.specs import Asked, node_spec

if TYPE_CHECKING:
    from tpuctl.cli.runtime import Runtime


@dataclass
class SliceFlags:
    """What the options of a slice said."""

    accelerator_type: str | None = None
    generation: str | None = None
    topology: str | None = None
    runtime_version: str | None = None
    spot: bool = False
    reserved: bool = False
    labels: str | None = None
    metadata: str | None = None
    network: str | None = None
    subnetwork: str | None = None
    internal_ips: bool = False
    service_account: str | None = None


TABLE: tuple[Row, ...] = (
    (
        "accelerator_type",
        ("--accelerator-type", "-t"),
        {"metavar": "TYPE", "help": "Such as v5litepod-16."},
    ),
    ("generation", ("--type",), {"metavar": "GENERATION", "help": "Such as V5LITE_POD."}),
    ("topology", ("--topology",), {"metavar": "TOPOLOGY", "help": "With --type, such as 4x4."}),
    (
        "runtime_version",
        ("--runtime-version",),
        {"metavar": "VERSION", "help": "Chosen by the type when absent."},
    ),
    ("spot", ("--spot",), {"is_flag": True, "help": "Cheaper, and may be taken away."}),
    ("reserved", ("--reserved",), {"is_flag": True, "help": "From a reservation."}),
    ("labels", ("--labels",), {"metavar": "K=V,K=V", "help": "Labels."}),
    ("metadata", ("--metadata",), {"metavar": "K=V,K=V", "help": "Metadata of the workers."}),
    ("network", ("--network",), {"metavar": "NETWORK", "help": "VPC network."}),
    ("subnetwork", ("--subnetwork",), {"metavar": "SUBNETWORK", "help": "VPC subnetwork."}),
    ("internal_ips", ("--internal-ips",), {"is_flag": True, "help": "No external addresses."}),
    (
        "service_account",
        ("--service-account",),
        {"metavar": "EMAIL", "help": "Who the workers are on Google Cloud."},
    ),
)


class SliceVerb(Verb):
    """A verb that creates a slice."""

    def __init__(self, *args: Any, params: list[Any] | None = None, **extra: Any) -> None:
        own = options_of(TABLE, lambda root: root.slice_flags)
        super().__init__(*args, params=[*(params or []), *own], **extra)


NoWait = Annotated[bool, typer.Option("--no-wait", help="Return when the request is accepted.")]
Timeout = Annotated[
    str | None, typer.Option(metavar="DURATION", help="How long to wait, such as 20m.")
]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]


def spec(runtime: "Runtime", name: str) -> NodeSpec:
    """The slice that the options describe, checked; raises UsageError."""
    flags = runtime.slice_flags
    if not (flags.accelerator_type or (flags.generation and flags.topology)):
        raise UsageError(
            "say which slice: either --accelerator-type, or --type and --topology together",
            hint="run: tpuctl catalog types",
        )
    return node_spec(
        Asked(
            name=name,
            zone=runtime.context.zone,
            accelerator_type=flags.accelerator_type,
            generation=flags.generation,
            topology=flags.topology,
            runtime_version=flags.runtime_version,
            spot=flags.spot,
            reserved=flags.reserved,
            labels=pairs(flags.labels, "--labels"),
            metadata=pairs(flags.metadata, "--metadata"),
            network=flags.network,
            subnetwork=flags.subnetwork,
            internal_ips=flags.internal_ips,
            service_account=flags.service_account,
        )
    )


def say_price(runtime: "Runtime", spec: NodeSpec) -> None:
    """What the slice costs, before it is asked for."""
    price = cost.hourly(spec.accelerator_type, spec.zone, spec.provisioning)
    what = f"{spec.accelerator_type} {spec.provisioning} in {spec.zone}"
    if price is None:
        runtime.output.note(f"{what}: no public price known")
        return
    runtime.output.note(f"{what}: {Usd(price.usd_per_hour)} USD/h (list price of {price.as_of})")


def goes_on(runtime: "Runtime", spec: NodeSpec, noun: str, end: str) -> None:
    """What to say when the person stops watching."""
    usd = cost.usd_per_hour(spec.accelerator_type, spec.zone, spec.provisioning)
    price = f" at {Usd(usd)} USD/h when READY" if usd is not None else ""
    runtime.goes_on.append(f"{noun} {spec.name!r} goes on{price}; end it with: {end}")
