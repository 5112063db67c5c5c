"""The objects that an input names: those below a directory, or those that match a pattern."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache

from tpuctl.errors import NotFoundError, UsageError
from tpuctl.serving.batch.formats.input_reader import InputObject
from tpuctl.serving.batch.formats.known_formats import format_name
from tpuctl.store import Store

_WILD = re.compile(r"[*?\[]")


def split_pattern(url: str) -> tuple[str, str]:
    """The directory that an input lies in, and the pattern below it.

    `gs://b/data/2024-*/x.csv` is `gs://b/data` and `2024-*/x.csv`; without a wildcard the whole is
    a directory, unless its name ends as a file of a known format does.
    """
    if _WILD.search(url):
        fixed = url[: _WILD.search(url).start()].rpartition("/")[0]  # type: ignore[union-attr]
        return fixed, url[len(fixed) + 1 :]
    directory, _, name = url.rstrip("/").rpartition("/")
    if "." in name and not url.endswith("/") and directory != "gs:/":
        return directory, name
    return url.rstrip("/"), "**"


def list_inputs(store: Store, pattern: str, url: str) -> list[InputObject]:
    """The objects of a store that match, in the order of their keys.

    What lies below a name that begins with `_` or `.` is not taken: outputs keep their records so.
    Raises NotFoundError when nothing matches, UsageError for other formats than one.
    """
    fixed = _WILD.split(pattern, maxsplit=1)[0]
    found = [
        InputObject(entry.key, entry.generation, entry.size_bytes, entry.crc32c)
        for entry in store.list(fixed)
        if _compiled(pattern).fullmatch(entry.key) and not _is_hidden(entry.key)
    ]
    if not found:
        raise NotFoundError(f"no object matches {url}", hint=f"run: tpuctl data list {store.url}/")
    by_format: dict[str, str] = {}
    for each in found:
        by_format.setdefault(format_name(each.key), each.key)
    if len(by_format) > 1:
        names = " and ".join(sorted(by_format.values())[:2])
        raise UsageError(
            f"the inputs are of several formats: {names}",
            hint=f"name one format: {store.url}/*.{next(iter(by_format))}",
        )
    return found


def refuse_overlap(input_url: str, output: str) -> None:
    """Raise UsageError when outputs would be inputs, or inputs would lie among the outputs."""
    directory = split_pattern(input_url)[0].rstrip("/") + "/"
    place = output.rstrip("/") + "/"
    if place.startswith(directory) or directory.startswith(place):
        raise UsageError(
            f"the output {output} and the input {input_url} lie in one another",
            hint="choose an output beside the directory of the input",
        )


def formats_of(inputs: Sequence[InputObject]) -> str:
    """The one format of the inputs."""
    return format_name(inputs[0].key)


def _is_hidden(key: str) -> bool:
    return any(part.startswith(("_", ".")) for part in key.split("/"))


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    """`**` is any text, `*` and `?` any but `/`, `[…]` one of those characters."""
    text, place = "", 0
    for each in re.finditer(r"\*\*/?|\*|\?|\[[^\]/]+\]", pattern):
        text += re.escape(pattern[place : each.start()]) + _expression(each.group())
        place = each.end()
    return re.compile(text + re.escape(pattern[place:]))


def _expression(wild: str) -> str:
    if wild.startswith("**"):
        return "(?:.*/)?" if wild.endswith("/") else ".*"
    if wild in "*?":
        return {"*": "[^/]*", "?": "[^/]"}[wild]
    inner = wild[1:-1].replace("\\", r"\\").replace("[", r"\[")
    return f"[^{inner[1:]}]" if inner[:1] == "!" and inner[1:] else f"[{inner}]"
