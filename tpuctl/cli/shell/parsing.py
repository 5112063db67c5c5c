"""Text of the command line as values: `k=v,k=v` maps, `a,b` lists, moments."""

from datetime import UTC, datetime

from tpuctl.errors import UsageError
from tpuctl.models.duration import parse_duration


def pairs(text: str | None, option: str) -> dict[str, str]:
    """Parse `k=v,k=v`; raises UsageError naming the option."""
    found: dict[str, str] = {}
    for part in filter(None, (text or "").split(",")):
        key, equals, value = part.partition("=")
        if not equals or not key:
            raise UsageError(f"{option}: {part!r} is not KEY=VALUE", hint=f"write {option} a=b,c=d")
        found[key] = value
    return found


def items(text: str | None) -> tuple[str, ...]:
    """Parse `a,b`; empty parts are left out."""
    return tuple(part.strip() for part in (text or "").split(",") if part.strip())


def moment_s(text: str, option: str) -> float:
    """An RFC 3339 time as seconds since the epoch; raises UsageError naming the option."""
    try:
        moment = datetime.fromisoformat(text)
        moment.astimezone(UTC)
    except (ValueError, OverflowError):  # the latter where the year in UTC is another, and none
        moment = None
    if moment is None or moment.tzinfo is None:
        raise UsageError(
            f"{option}: {text!r} is not a time with its zone",
            hint="write it as 2026-12-01T09:00:00Z or 2026-12-01T09:00:00+01:00",
        )
    return moment.timestamp()


def seconds(text: str | None) -> float | None:
    """The seconds of a duration such as 90s or 24h; None for an empty text. Raises UsageError."""
    return parse_duration(text) if text else None
