"""The options of everything that creates a slice: gcloud's names."""

from typing import Annotated

import typer

from tpuctl.cli.output import Usd
from tpuctl.cli.runtime import Runtime
from tpuctl.models.node import NodeSpec
from tpuctl.operations import cost

AcceleratorType = Annotated[
    str | None,
    typer.Option("--accelerator-type", "-t", metavar="TYPE", help="Such as v5litepod-16."),
]
Generation = Annotated[
    str | None, typer.Option("--type", metavar="GENERATION", help="Such as V5LITE_POD.")
]
Topology = Annotated[str | None, typer.Option(metavar="TOPOLOGY", help="With --type, such as 4x4.")]
RuntimeVersion = Annotated[
    str | None, typer.Option(metavar="VERSION", help="Chosen by the type when absent.")
]
Spot = Annotated[bool, typer.Option("--spot", help="Cheaper, and may be taken away.")]
Reserved = Annotated[bool, typer.Option("--reserved", help="From a reservation.")]
Labels = Annotated[str | None, typer.Option(metavar="K=V,K=V", help="Labels.")]
Metadata = Annotated[str | None, typer.Option(metavar="K=V,K=V", help="Metadata of the workers.")]
Network = Annotated[str | None, typer.Option(metavar="NETWORK", help="VPC network.")]
Subnetwork = Annotated[str | None, typer.Option(metavar="SUBNETWORK", help="VPC subnetwork.")]
InternalIps = Annotated[bool, typer.Option("--internal-ips", help="No external addresses.")]
ServiceAccount = Annotated[
    str | None, typer.Option(metavar="EMAIL", help="Who the workers are on Google Cloud.")
]
NoWait = Annotated[bool, typer.Option("--no-wait", help="Return when the request is accepted.")]
Timeout = Annotated[
    str | None, typer.Option(metavar="DURATION", help="How long to wait, such as 20m.")
]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]


def say_price(runtime: Runtime, spec: NodeSpec) -> None:
    """What the slice costs, before it is asked for."""
    price = cost.hourly(spec.accelerator_type, spec.zone, spec.provisioning)
    what = f"{spec.accelerator_type} {spec.provisioning} in {spec.zone}"
    if price is None:
        runtime.output.note(f"{what}: no public price known")
        return
    runtime.output.note(f"{what}: {Usd(price.usd_per_hour)} USD/h (list price of {price.as_of})")


def goes_on(runtime: Runtime, spec: NodeSpec, noun: str, end: str) -> None:
    """What to say when the person stops watching."""
    usd = cost.usd_per_hour(spec.accelerator_type, spec.zone, spec.provisioning)
    price = f" at {Usd(usd)} USD/h when READY" if usd is not None else ""
    runtime.goes_on.append(f"{noun} {spec.name!r} goes on{price}; end it with: {end}")
