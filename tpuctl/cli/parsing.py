"""Text of the command line as values: `k=v,k=v` maps."""

from tpuctl.errors import UsageError


def pairs(text: str | None, option: str) -> dict[str, str]:
    """`k=v,k=v` as a map; raises UsageError naming the option."""
    found: dict[str, str] = {}
    for part in filter(None, (text or "").split(",")):
        key, equals, value = part.partition("=")
        if not equals or not key:
            raise UsageError(f"{option}: {part!r} is not KEY=VALUE", hint=f"write {option} a=b,c=d")
        found[key] = value
    return found
