"""The checks of a scenario's values, which faults share; each raises ScenarioError of one line."""

import re
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from localsim.rules.model.quota_pools import pools, quota_ids, region_of
from localsim.rules.scenario.distributions import DISTRIBUTIONS, parameters
from tpuctl import catalog

ANY = "*"
"""Stands for every zone, accelerator type or method."""
MAX_SECONDS = 100 * 365 * 86400.0
_WORKER = re.compile(r"(?P<node>[^/\s]+)/(?P<worker>\d{1,4})")


class ScenarioError(ValueError):
    """A scenario, or a fault, that cannot be used; str() is one line."""


Check = Callable[[str, Any], None]
"""Takes the key, with the keys above it, and the value; raises ScenarioError."""


def number(key: str, value: Any) -> None:
    """Require a finite number, zero or more."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not 0 <= value <= sys.float_info.max:
        raise _wrong(key, "a finite number that is not negative", value)


def seconds(key: str, value: Any) -> None:
    """Require a number of seconds that a clock can reach."""
    number(key, value)
    if value > MAX_SECONDS:
        raise _wrong(key, f"at most {MAX_SECONDS:.0f}", value)


def whole(key: str, value: Any) -> None:
    """Require a whole number."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise _wrong(key, "a whole number", value)


def count(key: str, value: Any) -> None:
    """Require a whole number, zero or more."""
    whole(key, value)
    if not 0 <= value < 2**63:
        raise _wrong(key, "a whole number that is not negative", value)


def seed(key: str, value: Any) -> None:
    """Require a whole number within the limits of a seed."""
    whole(key, value)
    if not -(2**63) <= value < 2**63:
        raise ScenarioError(f"scenario: {key} must fit in 64 bits")


def probability(key: str, value: Any) -> None:
    """Require a number between 0 and 1."""
    number(key, value)
    if value > 1:
        raise _wrong(key, "between 0 and 1", value)


def text(key: str, value: Any) -> None:
    """Require a text that is not empty."""
    if not isinstance(value, str) or not value:
        raise _wrong(key, "a text", value)


def boolean(key: str, value: Any) -> None:
    """Require true or false."""
    if not isinstance(value, bool):
        raise _wrong(key, "true or false", value)


def one_of(*known: str) -> Check:
    """A check that requires one of these words."""

    def check(key: str, value: Any) -> None:
        if value not in known:
            raise _wrong(key, " or ".join(known), value)

    return check


def worker(key: str, value: Any) -> None:
    """Require `NODE/INDEX`, where NODE may hold `*`."""
    if not isinstance(value, str) or not _WORKER.fullmatch(value):
        raise _wrong(key, "NODE/INDEX", value)


def split_worker(value: str) -> tuple[str, int]:
    """The pattern of the node and the index of the worker in a checked `NODE/INDEX`."""
    node, _, index = value.rpartition("/")
    return node, int(index)


def amount(key: str, value: Any) -> None:
    """Require a number of seconds, or `{distribution: parameters}`."""
    if not isinstance(value, Mapping):
        seconds(key, value)
        return
    if len(value) != 1:
        raise _wrong(key, f"one of {', '.join(DISTRIBUTIONS)}", dict(value))
    ((name, given),) = value.items()
    check_known(key, "distribution", name, DISTRIBUTIONS)
    names, _ = DISTRIBUTIONS[name]
    values = parameters(given)
    if len(values) != len(names):
        raise ScenarioError(f"scenario: {key}.{name} takes {', '.join(names)}, not {given!r}")
    for parameter, number_s in zip(names, values, strict=True):
        seconds(f"{key}.{name} {parameter}", number_s)


def zone(key: str, value: Any) -> None:
    """Require a zone of the catalog."""
    check_known(key, "zone", value, catalog.zones())


def accelerator_type(key: str, value: Any) -> None:
    """Require a type that the API creates."""
    check_known(key, "accelerator type", value, [kind.name for kind in catalog.accelerator_types()])


def quota_location(key: str, quota_id: str, value: Any) -> None:
    """Require a region, or a zone for a quota that counts by zone."""
    scopes = {pool.quota_id: pool.scope for pool in pools()}
    if scopes.get(quota_id, "region") == "zone":
        zone(key, value)
    else:
        check_known(key, "region", value, {region_of(each): None for each in catalog.zones()})


def quota(key: str, value: Any) -> None:
    """Require `{quota id: limit}` or `{quota id: {zone or region: limit}}`."""
    for quota_id, limit in mapping(key, value, "quota ids to limits").items():
        check_known(key, "quota", quota_id, quota_ids())
        here = f"{key}.{quota_id}"
        if not isinstance(limit, Mapping):
            count(here, limit)
            continue
        for location, of_location in limit.items():
            quota_location(here, quota_id, location)
            count(f"{here}.{location}", of_location)


def subnets(key: str, value: Any) -> None:
    """Require `{zone: addresses}`."""
    for where, addresses in mapping(key, value, "zones to numbers of addresses").items():
        zone(key, where)
        count(f"{key}.{where}", addresses)


def capacity(key: str, value: Any) -> None:
    """Require `{zone: {accelerator type: slices, or steps of {at_s, slices}}}`; `*` means all."""
    for where, types in mapping(key, value, "zones to accelerator types").items():
        if where != ANY:
            zone(key, where)
        here = f"{key}.{where}"
        for name, slices in mapping(here, types, "accelerator types to numbers").items():
            if name != ANY:
                accelerator_type(here, name)
            if isinstance(slices, list | tuple):
                list_of_entries(_STEP, _STEP)(f"{here}.{name}", slices)
            else:
                count(f"{here}.{name}", slices)


def list_of(check: Check) -> Check:
    """A check that requires a list whose items all pass `check`."""

    def check_all(key: str, value: Any) -> None:
        if not isinstance(value, list | tuple):
            raise _wrong(key, "a list", value)
        for index, item in enumerate(value):
            check(f"{key}[{index}]", item)

    return check_all


def list_of_entries(known: Mapping[str, Check], required: Iterable[str]) -> Check:
    """A check of a list of mappings with keys of `known` only, the `required` ones among them."""

    def check(key: str, value: Any) -> None:
        given = mapping(key, value, "keys to values")
        for name, item in given.items():
            check_known(key, "key", name, known)
            known[name](f"{key}.{name}", item)
        missing = [name for name in required if name not in given]
        if missing:
            raise ScenarioError(f"scenario: {key} needs {missing[0]}")

    return list_of(check)


def mapping(key: str, value: Any, what: str) -> Mapping[Any, Any]:
    """Require a mapping and return it."""
    if not isinstance(value, Mapping):
        raise ScenarioError(f"scenario: {key} must map {what}")
    return value


def check_known(key: str, kind: str, value: Any, known: Iterable[str]) -> None:
    """Require one of the known names; the error names the nearest."""
    names = list(known)
    if isinstance(value, str) and value in names:
        return
    near = catalog.nearest(str(value)[:100], names) or tuple(sorted(names))
    place = f"{key}: " if key else ""
    raise ScenarioError(f"scenario: {place}unknown {kind} {_short(value)}; nearest: {near[0]}")


_STEP: Mapping[str, Check] = {"at_s": seconds, "slices": count}


def _wrong(key: str, what: str, value: Any) -> ScenarioError:
    return ScenarioError(f"scenario: {key} must be {what}, not {_short(value)}")


def _short(value: Any) -> str:
    shown = repr(value)
    return shown if len(shown) <= 500 else f"{shown[:500]}…"
