"""The options that every command takes, before the noun and after the verb alike: one table."""

import threading
from collections.abc import Callable, Collection
from dataclasses import dataclass, field, fields
from enum import StrEnum
from functools import partial, wraps
from importlib import import_module
from typing import Annotated, Any, cast

import typer
from typer.core import TyperCommand, TyperGroup, TyperOption

from tpuctl.cli.shell.help.other_tools import verb_for
from tpuctl.cli.shell.parsing import seconds
from tpuctl.errors import UsageError

Command = TyperCommand | TyperGroup
Handler = Callable[..., None]


class Format(StrEnum):
    """How results are printed."""

    TABLE = "table"
    WIDE = "wide"
    JSON = "json"
    YAML = "yaml"
    NAME = "name"
    CSV = "csv"
    TSV = "tsv"


Row = tuple[str, tuple[str, ...], dict[str, Any]]
"""An option: the name of its value, how it is written, and what Typer should know of it."""


def option(help: str, *short: str, long: str = "", default: Any = None, **extra: Any) -> Any:
    """A field that an option sets: `--` and the field's name, or `long`; `extra` is Typer's."""
    row = {"long": long, "short": short, "extra": {**extra, "help": help}}
    return field(default=default, metadata=row)


def flag(help: str, *short: str) -> Any:
    """A field that an option without a value sets."""
    return option(help, *short, is_flag=True, default=False)


def rows_of(flags: type) -> tuple[Row, ...]:
    """The option of every field of a dataclass, in their order."""
    return tuple(
        (
            each.name,
            (each.metadata["long"] or f"--{each.name.replace('_', '-')}", *each.metadata["short"]),
            each.metadata["extra"],
        )
        for each in fields(flags)
    )


def completed_by(source: str) -> Callable[..., list[tuple[str, str] | str]]:
    """What Typer asks for the values of a parameter: a source of `operations.completion`."""

    def complete(
        ctx: typer.Context, _args: list[str], incomplete: str
    ) -> list[tuple[str, str] | str]:
        from tpuctl.operations.completion.choices import TypedLine, choices

        runtime = ctx.find_root().obj
        line = TypedLine(
            home=runtime.home,
            environ=runtime.environ,
            context_flag=runtime.shared.context,
            zone=runtime.shared.zone,
            accelerator_type=ctx.params.get("accelerator_type")
            or runtime.slice_flags.accelerator_type,
            arguments=ctx.params,
            unnamed=ctx.args,
        )
        found = choices(source, line, incomplete)
        return [(each.name, each.about) if each.about else each.name for each in found]

    return complete


def complete_format(_ctx: typer.Context, _args: list[str], _incomplete: str) -> list[str]:
    """The formats of results."""
    return list(Format)


@dataclass
class Shared:
    """The values of the shared options; the last one given wins."""

    output: str = option(
        "table, wide, json, yaml, name, csv or tsv.",
        "-o",
        metavar="FORMAT",
        default=Format.TABLE,
        autocompletion=complete_format,
    )
    context: str | None = option(
        "Context to use.", "-c", metavar="NAME", autocompletion=completed_by("context")
    )
    project: str | None = option("Project, instead of the context's.", metavar="ID")
    zone: str | None = option(
        "Zone, instead of the context's.", metavar="ZONE", autocompletion=completed_by("zone")
    )
    no_headers: bool = flag("Leave out the line of headings.")
    quiet: bool = flag("No progress, only results.", "-q")
    debug: bool = flag("Show the traceback of an error.")


def type_option(help: str, metavar: str = "TYPE") -> Any:
    """`-t`, which completes accelerator types."""
    return typer.Option(
        "--accelerator-type",
        "-t",
        metavar=metavar,
        help=help,
        autocompletion=completed_by("type"),
    )


def generation_option(help: str, metavar: str = "NAME") -> Any:
    """`--generation`, which completes names such as v5e."""
    return typer.Option(
        "--generation", metavar=metavar, help=help, autocompletion=completed_by("generation")
    )


TABLE = rows_of(Shared)
JobName = Annotated[
    str,
    typer.Argument(
        metavar="NAME",
        help="The job: its id, or its name (the open one, else the newest).",
        autocompletion=completed_by("job"),
    ),
]
NodeName = Annotated[
    str, typer.Argument(metavar="NAME", help="The node.", autocompletion=completed_by("node"))
]
NoWait = Annotated[bool, typer.Option("--no-wait", help="Return when the request is accepted.")]
Timeout = Annotated[
    float | None,
    typer.Option(
        metavar="DURATION",
        parser=seconds,
        help="How long to wait, such as 20m.",
    ),
]
"""In seconds, once it is parsed; an empty text is not a limit."""
OverBudget = Annotated[
    bool, typer.Option("--over-budget", help="Although it exceeds a limit of `context budget`.")
]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
Shard = Annotated[
    bool, typer.Option("--shard", help="Each worker gets its part: every n-th file by name.")
]


def shared_options(taken: Collection[str] = ()) -> list[TyperOption]:
    """A new option for every row of the table, which writes into the root's `Shared`.

    A name that the command has taken for an option of its own is left out: `predict --output` is
    where the predictions go, and the format is `-o` alone.
    """
    rows = [
        (name, tuple(each for each in declarations if each not in taken), extra)
        for name, declarations, extra in TABLE
    ]
    return options_of(tuple(row for row in rows if row[1]), lambda root: root.shared)


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
    """A command that takes the options of a table and the shared ones after its own."""

    table: tuple[Row, ...] = ()

    def __init__(self, *args: Any, params: list[Any] | None = None, **extra: Any) -> None:
        own = {name for param in params or [] for name in param.opts}
        common = [*options_of(self.table, self.target_of), *shared_options(own)]
        super().__init__(*args, params=[*(params or []), *common], **extra)

    @staticmethod
    def target_of(runtime: Any) -> Any:
        """The object whose attributes the options of the table set."""
        return runtime

    def format_help_text(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002 - Typer calls it so
        """Write what the command does; words and what they mean in two columns."""
        from tpuctl.cli.shell.help import layout

        layout.write_text(self.help or "", formatter)

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the command's own options, and then its examples."""
        from tpuctl.cli.shell.help import layout

        layout.write_options(self, ctx, formatter, (f"{name}_option" for name, _, _ in TABLE))
        layout.write_examples(ctx.command_path.partition(" ")[2], formatter)


class Noun(TyperGroup):
    """A group of verbs, each of which is made, or even imported, only when somebody asks for it."""

    def __init__(self, help: str) -> None:
        super().__init__(help=help, no_args_is_help=True, rich_markup_mode=None)
        self._makers: dict[str, Callable[[], Command]] = {}
        self._making = threading.Lock()

    def verb(self, name: str, kind: type[Verb] = Verb) -> Callable[[Handler], Handler]:
        """Register a function as a verb; its first parameter is called `runtime`."""

        def register(function: Handler) -> Handler:
            self._add(name, partial(command_of, name, function, kind))
            return function

        return register

    def verb_in(self, name: str, place: str, kind: type[Verb] = Verb) -> None:
        """Register the verb at a place such as `node.cp:copy` within `tpuctl.cli`."""
        self._add(name, partial(load_command, name, place, kind))

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The verb of that name, made at the first call.

        Programs that call `main` in several threads share it: one makes the verb, others wait.
        """
        with self._making:
            make = self._makers.get(cmd_name)
            if make is not None:
                self.commands[cmd_name] = make()
                del self._makers[cmd_name]
        return super().get_command(ctx, cmd_name)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Find the verb. Raises UsageError for the verb of another tool, with the one of tpuctl."""
        is_typed = not ctx.resilient_parsing
        if (
            is_typed
            and args
            and args[0] not in self.commands
            and (verb := verb_for(args[0], self.commands))
        ):
            raise UsageError(
                f"{ctx.command_path} has no verb {args[0]!r}",
                hint=f"run: {' '.join((ctx.command_path, verb, *args[1:]))}",
            )
        return super().resolve_command(ctx, args)

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the verbs, by what a person wants to do."""
        from tpuctl.cli.shell.help import layout, sections

        layout.write_sections(self, ctx, formatter, sections.NOUNS.get(self.name or "", {}))

    def _add(self, name: str, make: Callable[[], Command]) -> None:
        self.commands[name] = TyperCommand(name=name)  # lists of names make nothing
        self._makers[name] = make


def command_of(name: str, function: Handler, kind: type[Verb] = Verb) -> Command:
    """The command that Typer makes of a function and its annotations."""
    app = typer.Typer(rich_markup_mode=None, pretty_exceptions_enable=False, add_completion=False)
    app.command(name, cls=kind)(_with_runtime(function))
    return cast(TyperCommand, typer.main.get_command(app))


def _with_runtime(function: Handler) -> Handler:
    """The function as Typer calls it: with its own context, whose object is the runtime."""

    @wraps(function)
    def call(runtime: typer.Context, **values: Any) -> None:
        function(runtime.obj, **values)

    call.__annotations__ = {**function.__annotations__, "runtime": typer.Context}
    return call


def load_command(name: str, place: str, kind: type[Verb] = Verb) -> Command:
    """The function or noun at a place such as `node.cp:copy` within `tpuctl.cli`, as a command."""
    module, _, attribute = place.partition(":")
    member = getattr(import_module(f"tpuctl.cli.{module}"), attribute)
    if not isinstance(member, Noun):
        return command_of(name, member, kind)
    member.name = name
    return member
