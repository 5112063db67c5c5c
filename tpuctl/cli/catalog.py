"""`tpuctl catalog ...`: what there is to ask for, and what it costs. Needs no credentials."""

from typing import Annotated

import typer

from tpuctl import catalog
from tpuctl.cli.shell.options import Noun
from tpuctl.cli.shell.output import Usd
from tpuctl.cli.shell.runtime import Runtime
from tpuctl.models.node import Provisioning
from tpuctl.operations.slices.specs import unknown_name_error

app = Noun("Accelerator types, zones, runtime versions and prices.")

Generation = Annotated[
    str | None, typer.Option("--generation", metavar="NAME", help="Such as v5e.")
]
Type = Annotated[
    str | None, typer.Option("--accelerator-type", "-t", metavar="TYPE", help="Only this type.")
]
TYPES = {
    "name": lambda kind: kind.name,
    "generation": lambda kind: kind.generation,
    "chips": lambda kind: kind.chips,
    "topology": lambda kind: kind.topology,
    "workers": lambda kind: kind.workers,
    "chips_per_worker": lambda kind: kind.chips_per_worker,
}
ZONES = {"zone": lambda row: row[0], "generations": lambda row: row[1]}
RUNTIMES = {
    "version": lambda row: row[0],
    "generation": lambda row: row[1],
    "default": lambda row: row[2],
}
PRICES = {
    "accelerator_type": lambda row: row[0],
    "zone": lambda row: row[1],
    "provisioning": lambda row: row[2],
    "usd_per_hour": lambda row: Usd(row[3].usd_per_hour),
    "usd_per_chip_hour": lambda row: Usd(row[3].usd_per_chip_hour),
    "as_of": lambda row: row[3].as_of,
    "source": lambda row: row[3].source,
}


@app.verb("types")
def types(ctx: typer.Context, generation: Generation = None) -> None:
    """List accelerator types; --zone shows what a zone has."""
    runtime = ctx.ensure_object(Runtime)
    zone = runtime.shared.zone
    try:
        found = catalog.accelerator_types(generation=generation, zone=zone)
    except catalog.UnknownError as error:
        raise unknown_name_error(error) from error
    runtime.output.items(found, TYPES)


@app.verb("zones")
def zones(ctx: typer.Context, accelerator_type: Type = None) -> None:
    """List zones, and the generations each one has."""
    runtime = ctx.ensure_object(Runtime)
    try:
        wanted = catalog.zones_of(accelerator_type) if accelerator_type else catalog.zones()
    except catalog.UnknownError as error:
        raise unknown_name_error(error) from error
    rows = [
        (zone, [g.name for g in catalog.generations() if zone in g.zones and g.api_creatable])
        for zone in wanted
    ]
    runtime.output.items(rows, ZONES)


@app.verb("runtimes")
def runtimes(ctx: typer.Context, generation: Generation = None) -> None:
    """List runtime versions by generation, and the one that tpuctl chooses."""
    runtime = ctx.ensure_object(Runtime)
    try:
        chosen = [catalog.generation(generation)] if generation else catalog.generations()
    except catalog.UnknownError as error:
        raise unknown_name_error(error) from error
    rows = [
        (version, one.name, version == one.default_runtime_version)
        for one in chosen
        for version in one.runtime_versions
    ]
    runtime.output.items(rows, RUNTIMES)


@app.verb("prices")
def prices(
    ctx: typer.Context, accelerator_type: Type = None, generation: Generation = None
) -> None:
    """List public prices by type and zone, each with its date; --zone narrows."""
    runtime = ctx.ensure_object(Runtime)
    try:
        found = _priced(accelerator_type, generation, runtime.shared.zone)
    except catalog.UnknownError as error:
        raise unknown_name_error(error) from error
    runtime.output.items(found, PRICES)


def _priced(
    accelerator_type: str | None, generation: str | None, zone: str | None
) -> list[tuple[str, str, str, catalog.Price]]:
    kinds = (
        (catalog.accelerator_type(accelerator_type),)
        if accelerator_type
        else catalog.accelerator_types(generation=generation, zone=zone)
    )
    return [
        (kind.name, place, provisioning, price)
        for kind in kinds
        for place in catalog.zones_of(kind.name)
        if zone in (None, place)
        for provisioning in (Provisioning.ON_DEMAND, Provisioning.SPOT, Provisioning.FLEX_START)
        if (price := catalog.price(kind.name, place, provisioning))
    ]
