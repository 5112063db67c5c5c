"""The grammar of faults."""

import re
from collections.abc import Callable, Mapping
from typing import Any

from localsim.rules.model.cloud_errors import Code
from localsim.rules.scenario import scenario_checks as checks
from localsim.rules.scenario import storage_fault_texts as storage
from localsim.rules.scenario.fault_types import (
    BootFault,
    CapacityOverride,
    Fault,
    FaultEffect,
    MethodFault,
    QuotaOverride,
    SshKeysDelay,
    StorageFault,
    UnreachableVpc,
    UnreachableZone,
    WorkerFault,
    WorkerFaultKind,
)
from localsim.rules.scenario.roles import TPU_METHODS
from localsim.rules.scenario.scenario_checks import ANY, ScenarioError

GRAMMAR = """\
METHOD: CODE [xN] [after call M]          GetNode: UNAVAILABLE x2 after call 3
METHOD: latency TIME [xN] [after call M]  CreateNode: latency 2s
METHOD: reset [xN] [after call M]         ListNodes: reset x1
METHOD: lost answer [xN] [after call M]   CreateNode: lost answer x1
worker NODE/INDEX: never boots            worker train-*/2: never boots
worker NODE/INDEX: killed                 worker train/2: killed
worker NODE/INDEX: hangs                  worker train/2: hangs
worker NODE/INDEX: cut off                worker train/2: cut off
worker NODE/INDEX: disk full              worker train/2: disk full
worker NODE/INDEX: slow Nx                worker train/2: slow 10x
worker NODE/INDEX: refuses ssh            worker train/2: refuses ssh
keys NODE: late TIME                      keys train: late 30s
zone ZONE: unreachable                    zone us-west4-a: unreachable
vpc: unreachable                          vpc: unreachable
capacity ZONE TYPE: SLICES                capacity us-west4-a v5litepod-16: 0
quota ID [ZONE or REGION]: LIMIT          quota IN_USE_ADDRESSES us-west4: 8
METHOD may be * for every method; ZONE and TYPE of a capacity too; NODE may hold *.

S: return-N [retry-after TIME]            storage.objects.insert: return-429 retry-after 2s x3
S: return-N-after-XK [retry-after TIME]   storage.objects.insert: return-503-after-256K x1
S: return-reset-connection                storage.objects.*: return-reset-connection x1
S: return-broken-stream-after-XK          storage.objects.get: return-broken-stream-after-256K x1
S: stall-for-Ts-after-XK                  storage.objects.get: stall-for-30s-after-256K x1
S: latency TIME                           storage.*: latency 200ms
S: bandwidth SIZE/s                       storage.objects.get: bandwidth 5MiB/s
S: corrupt bytes                          storage.objects.get: corrupt bytes x1 after call 2
S: disk full [after SIZE]                 storage.objects.insert: disk full after 1MiB
S is a method of Cloud Storage, or storage.*, storage.objects.*, storage.buckets.*; each of these
takes [xN] [after call M]. Any instruction that Google's storage test bench takes over HTTP will do.
"""
"""What a fault may say, with an example each; as `tpuctl local fault --help` shows it."""

MAX_SLOWDOWN = 100.0


def parse(text: str) -> Fault:
    """The fault that a text means; raises ScenarioError."""
    try:
        return _parse(text)
    except ScenarioError as error:
        raise ScenarioError(str(error).removeprefix("scenario: ")) from None


def check(key: str, value: Any) -> None:
    """Check a fault as the other checks of a scenario do; raises ScenarioError."""
    checks.text(key, value)
    try:
        parse(value)
    except ScenarioError as error:
        raise ScenarioError(f"scenario: {key}: {error}") from None


def _parse(text: str) -> Fault:
    subject, colon, what = (part.strip() for part in text.partition(":"))
    kind, *rest = subject.split() or [""]
    if not colon:
        raise ScenarioError(f"fault: {_quoted(text)} has no colon; as: {_example('GetNode')}")
    if kind in _WORLD:
        return _WORLD[kind](text, rest, what)
    if subject.startswith("storage."):
        return _storage_fault(text, subject, what)
    if rest:
        known = ", ".join(_WORLD)
        raise ScenarioError(f"fault: {_quoted(subject)} is neither a method nor one of {known}")
    return _method_fault(text, kind, what)


_COUNTED = re.compile(r"(?P<what>.*?)(\s+x(?P<times>\d{1,9}))?(\s+after call (?P<after>\d{1,9}))?")
_TIME = re.compile(r"(?P<number>\d+(\.\d+)?)\s*(?P<unit>ms|s|m|h)")
_SLOW = re.compile(r"slow (?P<factor>\d{1,6}(\.\d{1,3})?)x")
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


def _method_fault(text: str, method: str, what: str) -> MethodFault:
    if method != ANY:
        checks.check_known("fault", "method", method, sorted(TPU_METHODS))
    effect, times, after = _counted(text, "GetNode", what)
    return MethodFault(method, _effect(text, effect), times, after)


def _storage_fault(text: str, method: str, what: str) -> StorageFault:
    known = (*storage.METHODS, *storage.PATTERNS)
    checks.check_known("fault", "method", method, known)
    words, times, after = _counted(text, "storage.objects.insert", what)
    effect = storage.parse_effect(words, lambda argument: _time_s(text, argument))
    if effect is None:
        raise _wrong(text, "storage.objects.insert")
    return StorageFault(method, effect, times, after)


def _counted(text: str, kind: str, what: str) -> tuple[str, int | None, int]:
    """Split what happens from how often and after how many calls."""
    match = _COUNTED.fullmatch(what)
    if match is None:
        raise _wrong(text, kind)
    times = int(match["times"]) if match["times"] else None
    return match["what"], times, int(match["after"] or 0)


def _effect(text: str, what: str) -> FaultEffect:
    word, _, argument = what.partition(" ")
    if word == "latency":
        return FaultEffect(latency_s=_time_s(text, argument.strip()))
    if what == "lost answer":
        return FaultEffect(loses_answer=True)
    if argument:
        raise _wrong(text, "GetNode")
    if word == "reset":
        return FaultEffect(reset=True)
    checks.check_known("fault", "code", word, [each.name for each in Code if each is not Code.OK])
    return FaultEffect(code=Code[word])


def _worker(text: str, rest: list[str], what: str) -> BootFault | WorkerFault:
    if len(rest) != 1:
        raise _wrong(text, "worker")
    checks.worker("worker", rest[0])
    node, worker = checks.split_worker(rest[0])
    if what == "never boots":
        return BootFault(node, worker)
    if slow := _SLOW.fullmatch(what):
        return WorkerFault(node, worker, WorkerFaultKind.SLOW, _factor(text, slow["factor"]))
    words = [each.value for each in WorkerFaultKind if each is not WorkerFaultKind.SLOW]
    checks.check_known("fault", "trouble", what, ["never boots", "slow 10x", *words])
    return WorkerFault(node, worker, WorkerFaultKind(what))


def _factor(text: str, number: str) -> float:
    factor = float(number)
    if not 1 < factor <= MAX_SLOWDOWN:
        raise ScenarioError(
            f"fault: {_quoted(text)} needs a factor above 1, up to {MAX_SLOWDOWN:.0f}"
        )
    return factor


def _late_keys(text: str, rest: list[str], what: str) -> SshKeysDelay:
    word, _, argument = what.partition(" ")
    if len(rest) != 1 or word != "late":
        raise _wrong(text, "keys")
    return SshKeysDelay(rest[0], _time_s(text, argument.strip()))


def _unreachable(text: str, rest: list[str], what: str) -> UnreachableZone:
    if len(rest) != 1 or what != "unreachable":
        raise _wrong(text, "zone")
    checks.zone("fault", rest[0])
    return UnreachableZone(rest[0])


def _unreachable_vpc(text: str, rest: list[str], what: str) -> UnreachableVpc:
    if rest or what != "unreachable":
        raise _wrong(text, "vpc")
    return UnreachableVpc()


def _capacity(text: str, rest: list[str], what: str) -> CapacityOverride:
    if len(rest) != 2:
        raise _wrong(text, "capacity")
    zone, accelerator_type = rest
    slices = _count(text, "capacity", what)
    checks.capacity("fault", {zone: {accelerator_type: slices}})
    return CapacityOverride(zone, accelerator_type, slices)


def _quota(text: str, rest: list[str], what: str) -> QuotaOverride:
    if len(rest) not in (1, 2):
        raise _wrong(text, "quota")
    limit = _count(text, "quota", what)
    quota_id, location = (*rest, ANY)[:2]
    checks.quota("fault", {quota_id: limit if location == ANY else {location: limit}})
    return QuotaOverride(quota_id, location, limit)


_WORLD: Mapping[str, Callable[[str, list[str], str], Fault]] = {
    "worker": _worker,
    "keys": _late_keys,
    "zone": _unreachable,
    "vpc": _unreachable_vpc,
    "capacity": _capacity,
    "quota": _quota,
}
"""First word -> what the rest of the subject, and what is behind the colon, mean."""


def time_s(argument: str, what: str = "a time") -> float:
    """The seconds of a time such as `2s`, `500ms` or `5m`; raises ScenarioError."""
    match = _TIME.fullmatch(argument)
    if match is None:
        raise ScenarioError(f"{_quoted(argument)} is not a time such as 2s, 500ms or 5m")
    seconds = float(match["number"]) * _SECONDS[match["unit"]]
    checks.seconds(what, seconds)
    return seconds


def _time_s(text: str, argument: str) -> float:
    if _TIME.fullmatch(argument) is None:
        raise ScenarioError(f"fault: {_quoted(text)} needs a time such as 2s, 500ms or 5m")
    return time_s(argument, "the time of a fault")


def _count(text: str, kind: str, what: str) -> int:
    if not re.fullmatch(r"\d{1,12}", what):
        raise _wrong(text, kind)
    return int(what)


def _wrong(text: str, kind: str) -> ScenarioError:
    return ScenarioError(f"fault: {_quoted(text)} is not understood; as: {_example(kind)}")


def _example(kind: str) -> str:
    rows = (line.rpartition("  ")[2].strip() for line in GRAMMAR.splitlines())
    return next(row for row in rows if row.startswith(kind))


def _quoted(text: str) -> str:
    return repr(text if len(text) <= 200 else f"{text[:200]}…")
