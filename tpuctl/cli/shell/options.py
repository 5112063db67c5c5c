"""The options that every command takes, before the noun and after the verb alike: one table."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperOption


class Format(StrEnum):
    """How results are printed."""

    TABLE = "table"
    JSON = "json"
    YAML = "yaml"
    NAME = "name"


@dataclass
class Shared:
    """The values of the shared options; the last one given wins."""

    output: str = Format.TABLE
    context: str | None = None
    project: str | None = None
    zone: str | None = None
    quiet: bool = False
    debug: bool = False


JobName = Annotated[
    str,
    typer.Argument(
        metavar="NAME", help="The job: its id, or its name (the open one, else the newest)."
    ),
]
Row = tuple[str, tuple[str, ...], dict[str, Any]]
"""An option: the name of its value, how it is written, and what Typer should know of it."""

TABLE: tuple[Row, ...] = (
    ("output", ("--output", "-o"), {"metavar": "FORMAT", "help": "table, json, yaml or name."}),
    ("context", ("--context", "-c"), {"metavar": "NAME", "help": "Context to use."}),
    ("project", ("--project",), {"metavar": "ID", "help": "Project, instead of the context's."}),
    ("zone", ("--zone",), {"metavar": "ZONE", "help": "Zone, instead of the context's."}),
    ("quiet", ("--quiet", "-q"), {"is_flag": True, "help": "No progress, only results."}),
    ("debug", ("--debug",), {"is_flag": True, "help": "Show the traceback of an error."}),
)


def shared_options() -> list[TyperOption]:
    """A new option for every row of the table, which writes into the root's `Shared`."""
    return options_of(TABLE, lambda root: root.shared)


def options_of(table: tuple[Row, ...], target: Callable[[Any], Any]) -> list[TyperOption]:
    """Options that set the attribute of their name on what `target` takes from the root."""
    return [
        TyperOption(
            param_decls=[f"{name}_option", *declarations],
            expose_value=False,
            callback=_store(name, target),
            default=None,
            **extra,
        )
        for name, declarations, extra in table
    ]


def _store(name: str, target: Callable[[Any], Any]) -> Callable[..., Any]:
    def store(ctx: typer.Context, _parameter: Any, value: Any) -> Any:
        if value is not None and value is not False:
            if name == "output" and value not in list(Format):
                raise typer.BadParameter(f"{value!r} is not one of {', '.join(Format)}.")
            setattr(target(ctx.find_root().obj), name, value)
        return value

    return store


class Verb(TyperCommand):
    """A command that takes the shared options too."""

    def __init__(self, *args: Any, params: list[Any] | None = None, **extra: Any) -> None:
        super().__init__(*args, params=[*(params or []), *shared_options()], **extra)


class Noun(typer.Typer):
    """A group of verbs; every one of them takes the shared options."""

    def __init__(self, help: str) -> None:
        super().__init__(
            help=help,
            no_args_is_help=True,
            rich_markup_mode=None,
            pretty_exceptions_enable=False,
            add_completion=False,
        )
        self.callback()(_noun)  # without it a noun of one verb would become that verb

    def verb(self, name: str, kind: type[Verb] = Verb) -> Callable[[Callable[..., None]], Any]:
        """Register a verb."""
        return self.command(name, cls=kind)


def _noun() -> None:
    return None
