"""The texts of Cloud Storage's faults: its test bench's instructions, and words of our own."""

import re
from collections.abc import Callable, Mapping

from localsim.rules.scenario import scenario_checks as checks
from localsim.rules.scenario.fault_types import (
    BandwidthLimit,
    ConnectionCut,
    ConnectionReset,
    Corruption,
    DiskFull,
    LateRefusal,
    LostReply,
    StorageFaultEffect,
    StorageLatency,
    StorageRefusal,
    TransferStall,
)
from localsim.rules.scenario.scenario_checks import ScenarioError

_LISTS = ("bucket_acl", "default_object_acl", "object_acl")
METHODS = (
    "storage.buckets.list",
    "storage.buckets.insert",
    "storage.buckets.get",
    "storage.buckets.patch",
    "storage.buckets.update",
    "storage.buckets.delete",
    "storage.buckets.getIamPolicy",
    "storage.buckets.setIamPolicy",
    "storage.buckets.testIamPermissions",
    "storage.buckets.lockRetentionPolicy",
    "storage.buckets.getStorageLayout",
    "storage.notifications.list",
    "storage.notifications.insert",
    "storage.notifications.get",
    "storage.notifications.delete",
    *(
        f"storage.{resource}.{method}"
        for resource in _LISTS
        for method in ("list", "insert", "get", "patch", "update", "delete")
    ),
    "storage.objects.list",
    "storage.objects.insert",
    "storage.objects.get",
    "storage.objects.patch",
    "storage.objects.update",
    "storage.objects.delete",
    "storage.objects.compose",
    "storage.objects.copy",
    "storage.objects.rewrite",
    "storage.objects.move",
    "storage.objects.getIamPolicy",
    "storage.objects.setIamPolicy",
    "storage.objects.testIamPermissions",
    "storage.multipartUploads.list",
    "storage.multipartUploads.create",
    "storage.multipartUploads.put",
    "storage.multipartUploads.listParts",
    "storage.multipartUploads.complete",
    "storage.multipartUploads.abort",
    "storage.projects.hmacKeys.create",
    "storage.projects.hmacKeys.list",
    "storage.projects.hmacKeys.get",
    "storage.projects.hmacKeys.update",
    "storage.projects.hmacKeys.delete",
    "storage.projects.serviceAccount.get",
    "storage.batch",
)
"""What faults can be asked for; the XML API's verbs count as the methods they stand for."""
PATTERNS = (
    "storage.*",
    "storage.buckets.*",
    *(f"storage.{resource}.*" for resource in _LISTS),
    "storage.notifications.*",
    "storage.objects.*",
    "storage.multipartUploads.*",
)
BENCH_NAMES: Mapping[str, str] = {
    **{
        f"storage.projects.hmacKeys.{verb}": f"storage.hmacKey.{verb}"
        for verb in ("create", "list", "get", "update", "delete")
    },
    "storage.projects.serviceAccount.get": "storage.serviceaccount.get",
}
"""Method -> what Google's test bench calls it, where that is another name."""
_FEW_BYTES = 4  # what the test bench lets through of a `return-broken-stream`


def parse_instruction(text: str) -> StorageFaultEffect | None:
    """What an instruction of Google's storage test bench means; None for all it does not know.

    https://github.com/googleapis/storage-testbench#forced-failures-supported, and of its header's
    words `return-corrupted-data`, `stall-always` and `stall-at-NKiB`.
    """
    for pattern, effect in _INSTRUCTIONS.items():
        if found := re.fullmatch(pattern, text, re.ASCII):
            return effect(*(int(number) for number in found.groups()))
    return None


_N, _STATUS = r"(\d{1,9})", r"([45]\d\d)"
_INSTRUCTIONS: Mapping[str, Callable[..., StorageFaultEffect]] = {
    f"return-{_STATUS}": StorageRefusal,
    f"return-{_STATUS}-after-{_N}K": lambda status, kib: LateRefusal(status, kib * 1024),
    "return-reset-connection": ConnectionReset,
    "return-broken-stream": lambda: ConnectionCut(_FEW_BYTES),
    f"return-broken-stream-after-{_N}K": lambda kib: ConnectionCut(kib * 1024),
    f"return-broken-stream-final-chunk-after-{_N}B": LostReply,
    "return-corrupted-data": Corruption,
    f"stall-for-{_N}s-after-{_N}K": lambda time_s, kib: TransferStall(time_s, kib * 1024),
    f"stall-at-{_N}KiB": lambda kib: TransferStall(10.0, kib * 1024),
    "stall-always": lambda: TransferStall(10.0, 0),
}


def parse_effect(text: str, seconds: Callable[[str], float]) -> StorageFaultEffect | None:
    """What happens to a call, in an instruction or in words; None for what is neither.

    `seconds` reads a time. Raises ScenarioError.
    """
    if effect := parse_instruction(text):
        if isinstance(effect, TransferStall):
            checks.seconds("the time of a fault", effect.time_s)
        return effect
    for pattern, effect_of in _WORDS.items():
        if match := re.fullmatch(pattern, text, re.ASCII):
            return effect_of(match, seconds)
    return None


_SIZE = r"(?P<number>\d{1,9}(?:\.\d{1,3})?)\s*(?P<unit>B|KiB|MiB|GiB|K)"
_BYTES = {"B": 1, "K": 1024, "KiB": 1024, "MiB": 1024**2, "GiB": 1024**3}


def _size_bytes(match: re.Match[str]) -> float:
    return float(match["number"]) * _BYTES[match["unit"]] if match["number"] else 0.0


def _refusal(match: re.Match[str], seconds: Callable[[str], float]) -> StorageFaultEffect:
    time_s, status = seconds(match["time"]), int(match["status"])
    if time_s != int(time_s):
        raise ScenarioError("fault: Retry-After counts in whole seconds")
    if match["kib"] is None:
        return StorageRefusal(status, int(time_s))
    return LateRefusal(status, int(match["kib"]) * 1024, int(time_s))


def _bandwidth(match: re.Match[str], _seconds: Callable[[str], float]) -> StorageFaultEffect:
    if _size_bytes(match) < 1:
        raise ScenarioError("fault: a bandwidth is at least 1B/s")
    return BandwidthLimit(_size_bytes(match))


_WORDS: Mapping[str, Callable[[re.Match[str], Callable[[str], float]], StorageFaultEffect]] = {
    r"return-(?P<status>[45]\d\d)(?:-after-(?P<kib>\d{1,9})K)?\s+"
    r"retry-after\s+(?P<time>.*)": _refusal,
    r"latency\s+(?P<time>.*)": lambda match, seconds: StorageLatency(seconds(match["time"])),
    rf"bandwidth\s+{_SIZE}/s": _bandwidth,
    r"corrupt\s+bytes": lambda _match, _seconds: Corruption(),
    rf"disk\s+full(?:\s+after\s+{_SIZE})?": lambda match, _: DiskFull(int(_size_bytes(match))),
}
