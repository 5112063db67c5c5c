"""Words that entries of a timeline are written in."""

import re

_ORDINALS = {1: "st", 2: "nd", 3: "rd"}


def ordinal(number: int) -> str:
    """`1st`, `2nd`, `3rd`, `11th`."""
    suffix = "th" if 10 <= number % 100 <= 20 else _ORDINALS.get(number % 10, "th")
    return f"{number}{suffix}"


def escape_glob(text: str) -> str:
    """The pattern that only this text matches."""
    return re.sub(r"([*?[])", r"[\1]", text)
