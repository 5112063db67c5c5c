"""One grammar for large amounts: `1T`, `4M`, `15.6e12`, `300_000`."""

import re

from tpuctl.errors import UsageError

FACTORS = {"": 1.0, "k": 1e3, "m": 1e6, "b": 1e9, "g": 1e9, "t": 1e12}
_PATTERN = re.compile(r"([-+]?[0-9][0-9_]{0,30}(?:\.[0-9]{1,15})?(?:e[0-9]{1,2})?)([kmbgt]?)", re.I)


def parse_amount(text: str, name: str, *, least: float, most: float) -> float:
    """The number that a text means, from `least` to `most`; raises UsageError naming `name`."""
    match = _PATTERN.fullmatch(text.strip())
    if match is None:
        hint = "write it as 4096, 4M, 300B or 1.5T"
        raise UsageError(f"{name}: {text[:40]!r} is not an amount", hint=hint)
    amount = float(match[1].replace("_", "")) * FACTORS[match[2].lower()]
    if not least <= amount <= most:
        raise UsageError(
            f"{name} must be from {amount_text(least)} to {amount_text(most)}, not {text[:40]}"
        )
    return amount


def parse_count(text: str, name: str, *, most: float, least: int = 1) -> int:
    """The whole number that a text means; raises UsageError naming `name`."""
    amount = parse_amount(text, name, least=least, most=most)
    if amount != int(amount):
        raise UsageError(f"{name} must be a whole number, not {text[:40]}")
    return int(amount)


def amount_text(amount: float) -> str:
    """An amount with three digits: `1T`, `7.86M`, `38.5k`; below 10,000 all of them."""
    for least, factor, unit in (
        (1e12, 1e12, "T"),
        (1e9, 1e9, "B"),
        (1e6, 1e6, "M"),
        (1e4, 1e3, "k"),
    ):
        if amount >= least:
            return f"{three_digits(amount / factor)}{unit}"
    return f"{amount:.0f}" if amount >= 1 else f"{amount:.3g}"


def seconds_text(seconds: float) -> str:
    """`0.41 ms`, `12.3 s`, with three digits."""
    for factor, unit in ((1.0, "s"), (1e3, "ms"), (1e6, "us")):
        if seconds * factor >= 1:
            return f"{three_digits(seconds * factor)} {unit}"
    return f"{three_digits(seconds * 1e9)} ns"


def percent_text(share: float) -> str:
    """A share in per cent with two digits: `0.98 %`, `12 %`, `100 %`."""
    return f"{float(f'{100 * share:.2g}'):g} %"


def three_digits(number: float) -> str:
    """A number with three digits; from 100 on all of its whole ones: `6.72`, `1,543`."""
    return f"{number:,.0f}" if number >= 100 else f"{number:.3g}"  # noqa: PLR2004 (of three digits)
