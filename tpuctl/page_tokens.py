"""The pages of a list of any API: one loop over page tokens, which ends whatever the service says.

Training programs and agents on workers have it too: Python 3.8 and the standard library.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from typing import Any, TypeVar

    Page = TypeVar("Page")

SHOWN_CHARS = 40


def read_pages(
    fetch: Callable[[str], Page],
    next_token: Callable[[Page], str | None],
    error: Callable[[str], Exception],
    what: str,
) -> Iterator[Page]:
    """Yield every page of a list; `fetch` gets the token of the page, empty for the first.

    Raises `error` with a sentence about `what` when a page names a token that an earlier one named:
    such a list would never end.
    """
    token = ""
    seen = set()
    while True:
        page = fetch(token)
        yield page
        token = next_token(page) or ""
        if not token:
            return
        if token in seen:
            raise error(
                f"{what}: the service named the page {token[:SHOWN_CHARS]!r} twice, "
                "so that the list would never end"
            )
        seen.add(token)


def json_token(page: Mapping[str, Any]) -> str:
    """The token of the page after one, as every API of JSON spells it; empty at the end."""
    return str(page.get("nextPageToken") or "")
