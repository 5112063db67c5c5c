"""HTML made of elements: every text is escaped unless an element made it."""

from collections.abc import Callable, Iterable, Mapping
from html import escape
from typing import Any, TypeVar
from urllib.parse import quote, urlencode

T = TypeVar("T")
VOID = frozenset({"br", "hr", "input", "link", "meta"})
"""Elements without an end."""
EMPTY = (None, "")


class Html(str):
    """A text that is HTML; all others are escaped. Adding a plain text to it gives a plain text."""

    __slots__ = ()


Child = Html | str | float | Iterable[Any] | None
"""What an element may hold: elements, texts, numbers, and several of them."""


def tag(name: str, /, *children: Child, **attributes: str | float | bool | None) -> Html:
    """An element. `class_` stands for class, `data_x` for data-x; None and False leave one out.

    Raises ValueError for an attribute that the content security policy of the pages forbids.
    """
    shown = "".join(_attribute(key, value) for key, value in attributes.items())
    if name in VOID:
        return Html(f"<{name}{shown}>")
    return Html(f"<{name}{shown}>{join(children)}</{name}>")


def join(children: Child) -> Html:
    """Elements and texts one after the other, the texts escaped."""
    if children is None:
        return Html("")
    if isinstance(children, Html):
        return children
    if isinstance(children, (str, float, int)):
        return Html(escape(str(children)))
    return Html("".join(map(join, children)))


def _attribute(key: str, value: str | float | bool | None) -> str:
    if key == "style" or key.startswith("on"):
        raise ValueError(f"the pages may not have an attribute {key!r}")
    if value is None or value is False:
        return ""
    name = key.rstrip("_").replace("_", "-")
    return f" {name}" if value is True else f' {name}="{escape(str(value))}"'


def path(*parts: str, **query: str) -> str:
    """The path of a page, each part and value quoted: `/jobs/digits-1/logs?worker=3`."""
    asked = f"?{urlencode(query)}" if query else ""
    return "/" + "/".join(quote(part, safe="") for part in parts) + asked


def link(text: Child, *parts: str, **query: str) -> Html:
    """A link to a page of the dashboard."""
    return tag("a", text, href=path(*parts, **query))


def table(
    caption: str, columns: Mapping[str, Callable[[T], Child]], rows: Iterable[T], empty: str = ""
) -> Html:
    """A table with a row for each of `rows`, or the text `empty` where there is none.

    Each cell also has its heading, which a narrow screen shows beside it. A column without any
    value is left out.
    """
    cells = [{key: get(row) for key, get in columns.items()} for row in rows]
    shown = [key for key in columns if any(row[key] not in EMPTY for row in cells)]
    if not cells:
        return tag("p", empty, class_="muted")
    heads = [tag("th", key, scope="col") for key in shown]
    body = [tag("tr", [_cell(key, row[key]) for key in shown]) for row in cells]
    parts = (tag("caption", caption), tag("thead", tag("tr", heads)), tag("tbody", body))
    return tag("table", *parts)


def _cell(key: str, value: Child) -> Html:
    is_number = isinstance(value, (int, float))
    return tag(
        "td", "-" if value in EMPTY else value, data_label=key, class_=is_number and "number"
    )
