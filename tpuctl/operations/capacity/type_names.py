"""The accelerator type that somebody means, by its own name or by that of its generation."""

from collections.abc import Callable

from tpuctl import catalog
from tpuctl.byte_size import names_text
from tpuctl.catalog.records import Generation
from tpuctl.errors import NotFoundError, UsageError
from tpuctl.operations.slices.specs import unknown_name_error

MOST_SHOWN = 6


def resolve_type(typed: str) -> str:
    """The type that `v5litepod-16` or `v5e-16` means, in upper or lower case.

    Raises UsageError for a generation without a size, and for an unknown name, with the nearest
    ones; NotFoundError for a type that no zone has.
    """
    return _resolved(typed, _require_zones)


def resolve_name(typed: str) -> str:
    """The full name of a type as `resolve_type` reads it, also of one that no zone has.

    Other APIs may offer such a type. Raises UsageError.
    """
    return _resolved(typed, lambda _generation, _name: None)


def _resolved(typed: str, check: Callable[[Generation, str], None]) -> str:
    name = typed.strip().lower()
    generations = {each.name: each for each in catalog.generations()}
    generations |= {  # people write v7x where its name is tpu7x
        each.replace("tpu", "v"): found for each, found in generations.items()
    }
    prefixes = {each.type_prefix.removesuffix("-"): each for each in generations.values()}
    stem, _, size = name.rpartition("-")
    if found := generations.get(name) or prefixes.get(name):
        check(found, found.name)
        raise _sizes_error(found)
    if found := generations.get(stem) or prefixes.get(stem):
        check(found, typed)
        name = f"{found.type_prefix}{size}"
    try:
        kind = catalog.accelerator_type(name)
    except catalog.UnknownError as error:
        raise unknown_name_error(error) from error
    check(catalog.generation(kind.generation), kind.name)
    return kind.name


def _require_zones(generation: Generation, name: str) -> None:
    """Raise NotFoundError for a generation that the Cloud TPU API does not have."""
    if not generation.api_creatable:
        newest = [each.name for each in catalog.generations() if each.api_creatable][-1]
        raise NotFoundError(f"no zone has {name}: the Cloud TPU API ends at {newest}")


def _sizes_error(generation: Generation) -> UsageError:
    types = sorted(generation.types, key=lambda kind: kind.chips)
    named = names_text([kind.name for kind in types], MOST_SHOWN)
    return UsageError(
        f"{generation.name} is a generation: say which size",
        hint=f"one of {named}; run: tpuctl catalog types --generation {generation.name}",
    )
