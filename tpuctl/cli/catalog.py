"""`tpuctl catalog ...`: what there is to ask for, and what it costs. Needs no credentials."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Annotated

import typer

from tpuctl import catalog
from tpuctl.cli.shell.options import Noun, generation_option, type_option
from tpuctl.cli.shell.runtime import Runtime
from tpuctl.cli.shell.tables.list_verb import ListVerb
from tpuctl.cli.shell.tables.listing import Listing, declare_keys
from tpuctl.cli.shell.tables.values import Usd, attributes, entries
from tpuctl.models.money.price_book import PriceBook
from tpuctl.models.node import Provisioning
from tpuctl.models.planning.amount import amount_text
from tpuctl.operations.slices.specs import unknown_name_error

app = Noun("Types, zones, runtime versions, prices and public models.")

Generation = Annotated[str | None, generation_option("Such as v5e.")]
Type = Annotated[str | None, type_option("Only this type.")]
TYPES = Listing(
    attributes("name", "generation", "chips", "topology", "workers", "chips_per_worker"),
    least=("chips_per_worker", "generation"),
)
ZONES = entries("zone", "generations")
RUNTIMES = entries("version", "generation", "default")
PRICE_KEYS = {
    **entries("accelerator_type", "zone", "provisioning"),
    "usd_per_hour": lambda row: Usd(row[3].usd_per_hour),
    "usd_per_chip_hour": lambda row: Usd(row[3].usd_per_chip_hour),
    "as_of": lambda row: row[3].as_of,
    "source": lambda row: row[3].source,
}
PRICES = Listing(PRICE_KEYS, least=("source", "as_of", "usd/chip/h"))
MODELS = Listing(
    entries("name", "family", "parameters", "active_parameters", "context_tokens", "source"),
    table={
        "name": "name",
        "family": "family",
        "parameters": lambda row: amount_text(row[2]),
        "active parameters": lambda row: amount_text(row[3]),
        "context": "context_tokens",
        "source": "source",
    },
    least=("source", "context"),
)


@app.verb("types", ListVerb)
@declare_keys(lambda: TYPES.keys)
def types(runtime: Runtime, generation: Generation = None) -> None:
    """List accelerator types; --zone shows what a zone has."""
    zone = runtime.shared.zone
    with _explain_unknown_names():
        kinds = catalog.accelerator_types(generation=generation, zone=zone)
    runtime.output.items(kinds, TYPES)


@app.verb("zones", ListVerb)
@declare_keys(lambda: ZONES)
def zones(runtime: Runtime, accelerator_type: Type = None) -> None:
    """List zones, and the generations each one has."""
    with _explain_unknown_names():
        wanted = catalog.zones_of(accelerator_type) if accelerator_type else catalog.zones()
    rows = [
        (zone, [g.name for g in catalog.generations() if zone in g.zones and g.api_creatable])
        for zone in wanted
    ]
    runtime.output.items(rows, ZONES)


@app.verb("runtimes", ListVerb)
@declare_keys(lambda: RUNTIMES)
def runtimes(runtime: Runtime, generation: Generation = None) -> None:
    """List runtime versions, and which one tpuctl chooses."""
    with _explain_unknown_names():
        chosen = [catalog.generation(generation)] if generation else catalog.generations()
    rows = [
        (version, each.name, version == each.default_runtime_version)
        for each in chosen
        for version in each.runtime_versions
    ]
    runtime.output.items(rows, RUNTIMES)


@app.verb("prices", ListVerb)
@declare_keys(lambda: PRICES.keys)
def prices(
    runtime: Runtime,
    accelerator_type: Type = None,
    generation: Generation = None,
    update: Annotated[
        str | None,
        typer.Option(
            metavar="FILE|gs://...",
            help="Add a newer table: ours, or Google's list of SKUs as JSON.",
        ),
    ] = None,
) -> None:
    """List public prices by type and zone.

    Each has its date. --zone chooses one zone. A table that --update adds is kept beside the
    catalog, and each of its prices counts from the moment on that it names.
    """
    from tpuctl.operations.cost import price_tables

    if update is not None:
        kept = price_tables.add_table(runtime.home, update, partial(_read_object, runtime))
        runtime.output.note(f"{kept.prices} prices are kept, the newest of {kept.newest}")
        return
    book = price_tables.load_book(runtime.home, None)
    with _explain_unknown_names():
        rows = _priced(book, accelerator_type, generation, runtime.shared.zone, runtime.now())
    runtime.output.items(rows, PRICES)


@app.verb("models", ListVerb)
@declare_keys(lambda: MODELS.keys)
def models(runtime: Runtime) -> None:
    """List the public models that `tpuctl plan` knows.

    Active parameters are those that one token goes through. In a mixture of experts, only the
    experts that get the token count. SOURCE says where the shape is published.
    """
    from tpuctl.perfmodel.workload.known_models import transformer_of
    from tpuctl.perfmodel.workload.transformer import count_parameters

    rows = [
        (
            model.name,
            model.family,
            model.parameters,
            count_parameters(transformer_of(model.shape)).active,
            model.context_tokens,
            model.source,
        )
        for model in catalog.public_models()
    ]
    runtime.output.items(rows, MODELS)


@contextmanager
def _explain_unknown_names() -> Iterator[None]:
    """Raise UsageError with the nearest names for a name that the catalog does not have."""
    try:
        yield
    except catalog.UnknownError as error:
        raise unknown_name_error(error) from error


def _read_object(runtime: Runtime, url: str) -> bytes:
    bucket, _, key = url.removeprefix("gs://").partition("/")
    return runtime.store(f"gs://{bucket}").get_range(key)


def _priced(
    book: PriceBook,
    accelerator_type: str | None,
    generation: str | None,
    zone: str | None,
    now_s: float,
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
        if (price := book.price_at(kind.name, place, provisioning, now_s))
    ]
