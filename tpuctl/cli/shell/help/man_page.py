"""Manual pages in the man(7) language of troff, made from the help of commands."""

import re
from collections.abc import Iterator, Sequence
from typing import Any

import typer

from tpuctl import __version__
from tpuctl.cli.shell.help.layout import examples
from tpuctl.cli.shell.help.sections import ROOT, Sections, section_names
from tpuctl.cli.shell.options import TABLE
from tpuctl.errors import TpuctlError

AS_IS = "\b\n"
"""Begins a paragraph of help whose lines stay as they are."""


def man_page(path: str, command: Any) -> str:
    """The page of a command such as `tpuctl node create`: a noun's page has all of its verbs."""
    name = path.replace(" ", "-")
    summary, *rest = (command.help or "").split("\n\n")
    verbs: dict[str, Any] = getattr(command, "commands", {})
    lines = [
        f'.TH "{_text(name.upper())}" 1 "" "tpuctl {_text(__version__)}" "tpuctl"',
        '.SH "NAME"',
        f"{_text(name)} \\- {_text(_joined(summary).rstrip('.'))}",
        '.SH "SYNOPSIS"',
        f"\\fB{_text(path)}\\fR {_text(_usage(path, command))}",
        *(['.SH "DESCRIPTION"', *_paragraphs(rest)] if rest else []),
    ]
    if path == "tpuctl":
        lines += [*_commands(command, ROOT), *_exit_status()]
    elif verbs:
        for verb in verbs:
            lines += _verb(f"{path} {verb}", command.get_command(None, verb))
    else:
        lines += _parameters(path, command, ".SH") + _examples(path, ".SH")
    return "\n".join([*lines, *_shared(path), *_see_also(path)]) + "\n"


def _verb(path: str, command: Any) -> Iterator[str]:
    """A verb of a noun as a section of the noun's page."""
    yield f'.SH "{_text(path.removeprefix("tpuctl ").upper())}"'
    yield f"\\fB{_text(path)}\\fR {_text(_usage(path, command))}"
    yield from _paragraphs((command.help or "").split("\n\n"))
    yield from _parameters(path, command, ".SS")
    yield from _examples(path, ".SS")


def _commands(command: Any, sections: Sections) -> Iterator[str]:
    """The commands of the root by purpose, and the options that only the root has."""
    yield '.SH "COMMANDS"'
    for title, names in section_names(sections, list(command.commands)).items():
        yield f'.SS "{_text(title)}"'
        for name in names:
            yield from _tagged(f"tpuctl {name}", command.commands[name].help or "")
    yield from _parameters("tpuctl", command, ".SH")


def _parameters(path: str, command: Any, heading: str) -> list[str]:
    """The arguments and options of a command, without those that every command takes."""
    shared = {f"{name}_option" for name, _, _ in TABLE}
    context = _context(path, command)
    lines: dict[str, list[str]] = {"Arguments": [], "Options": []}
    for parameter in command.get_params(context):
        record = parameter.get_help_record(context)
        if record is not None and parameter.name not in shared:
            title = "Arguments" if parameter.param_type_name == "argument" else "Options"
            lines[title] += _tagged(*record)
    return [
        line
        for title, listed in lines.items()
        if listed
        for line in (f'{heading} "{title.upper() if heading == ".SH" else title}"', *listed)
    ]


def _examples(path: str, heading: str) -> list[str]:
    lines = examples().get(path.removeprefix("tpuctl "), ())
    title = "EXAMPLES" if heading == ".SH" else "Examples"
    return [f'{heading} "{title}"', *_as_is(lines)] if lines else []


def _shared(path: str) -> Iterator[str]:
    """The options that every command takes: all on the page of the root, else where they are."""
    yield '.SH "OPTIONS OF EVERY COMMAND"'
    if path != "tpuctl":
        names = ", ".join(declarations[0] for _, declarations, _ in TABLE)
        yield f"{_text(names)}: see \\fBtpuctl\\fR(1)."
        return
    for _, declarations, extra in TABLE:
        names, value = ", ".join(declarations), str(extra.get("metavar", ""))
        yield from _tagged(f"{names} {value}".rstrip(), str(extra["help"]))


def _exit_status() -> Iterator[str]:
    """The meaning of every exit code."""
    yield '.SH "EXIT STATUS"'
    yield from _tagged("0", "Done.")
    yield from _tagged(str(TpuctlError.exit_code), "A bug in tpuctl.")
    for kind in TpuctlError.__subclasses__():
        summary = (kind.__doc__ or "").split("\n")[0]
        yield from _tagged(str(kind.exit_code), summary)
    yield from _tagged("130, 143", "Interrupted by Ctrl-C, ended by SIGTERM.")


def _see_also(path: str) -> Iterator[str]:
    yield '.SH "SEE ALSO"'
    others = "" if path == "tpuctl" else "\\fBtpuctl\\fR(1), "
    yield f"{others}\\fBtpuctl help\\fR, which lists the pages of the documentation"


def _usage(path: str, command: Any) -> str:
    """What follows the name of a command on its line of usage."""
    return " ".join(command.collect_usage_pieces(_context(path, command)))


def _context(path: str, command: Any) -> typer.Context:
    return typer.Context(command, info_name=path, help_option_names=["-h", "--help"])


def _paragraphs(texts: Sequence[str]) -> Iterator[str]:
    for text in texts:
        yield ".PP"
        if text.startswith(AS_IS):
            yield from _as_is(text.removeprefix(AS_IS).splitlines())
        else:
            yield _marked(_joined(text))


def _as_is(lines: Sequence[str]) -> Iterator[str]:
    """Lines that are neither filled nor wrapped."""
    yield from (".PP", ".RS 4", ".nf", *map(_text, lines), ".fi", ".RE")


def _tagged(tag: str, text: str) -> Iterator[str]:
    """A term in bold, and what it means beside it."""
    yield from (".TP", f"\\fB{_text(tag)}\\fR", _marked(_joined(text)) or "\\&")


def _marked(text: str) -> str:
    """Text whose `words` in backquotes are bold."""
    return re.sub(r"`([^`]+)`", r"\\fB\1\\fR", _text(text, ticks="`"))


def _text(text: str, *, ticks: str = "\\(ga") -> str:
    """Text that troff prints as it is: no escapes, no requests, hyphens that can be searched."""
    escaped = text.replace("\\", "\\e").replace("-", "\\-").replace("`", ticks)
    escaped = escaped.replace('"', "\\(dq").replace("'", "\\(aq").replace("~", "\\(ti")
    escaped = escaped.replace("^", "\\(ha")
    escaped = re.sub(r"[^ -~]", lambda found: f"\\[u{ord(found[0]):04X}]", escaped)
    return f"\\&{escaped}" if escaped.startswith(".") else escaped


def _joined(text: str) -> str:
    return " ".join(text.split())
