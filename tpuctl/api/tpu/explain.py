"""Explains refusals of the API by one table, read from the top: the cause and what to do next.

The texts are those seen in the field; Google promises none of them, so ErrorInfo's reason is
looked at first, then the text but for the names in it, and what no row knows keeps the meaning of
its code.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass

from tpuctl.api.tpu.hints import (
    QR,
    CallSubject,
    grant_command,
    nearest_zones_hint,
    other_zones_hint,
    permission_hint,
    reservations_hint,
    state_hint,
)
from tpuctl.api.tpu.network_errors import (
    AddressesUsedError,
    AddressLimitError,
    AddressPolicyError,
    NoNetworkError,
    NoSubnetworkError,
    SubnetFullError,
    address_error,
    new_network_hint,
    new_subnet_hint,
    wanted_addresses,
    without_addresses_hint,
)
from tpuctl.errors import (
    CapacityError,
    ConflictError,
    CredentialsError,
    NotFoundError,
    PermissionDeniedError,
    PreconditionError,
    TpuctlError,
    TransientError,
    UsageError,
)
from tpuctl.models.capacity.capacity_event import RefusalCause
from tpuctl.models.operation import Status

INVALID, NOT_FOUND, EXISTS, DENIED, EXHAUSTED, WRONG_STATE, ABORTED = 3, 5, 6, 7, 8, 9, 10
UNAUTHENTICATED = 16
BY_CODE: dict[int, type[TpuctlError]] = {
    INVALID: UsageError,
    4: TransientError,
    NOT_FOUND: NotFoundError,
    EXISTS: ConflictError,
    DENIED: PermissionDeniedError,
    EXHAUSTED: CapacityError,
    WRONG_STATE: PreconditionError,
    ABORTED: PreconditionError,
    11: UsageError,
    12: UsageError,
    14: TransientError,
    UNAUTHENTICATED: CredentialsError,
}
"""The meaning of google.rpc.Code, where no row of the table knows better."""
RETRY_HINT = "run it again in a minute"
OTHER_NODE_ID = "choose another --node-id; run: tpuctl node list"
_EID = re.compile(r"\s*\[EID: 0x[0-9a-fA-F]+\]")
_OWN_NAME = re.compile(r"\b((?:projects|nodes|queuedResources)/)[^/\s'\"]+")


class QuotaError(CapacityError):
    """A quota is used up: the slices that hold it can be named."""


class StockoutError(CapacityError):
    """There are no chips of that type in the zone at present."""


class ClosedZoneError(PermissionDeniedError):
    """The zone is not open to the project, whoever asks."""


Hint = Callable[[CallSubject, re.Match[str]], str | None]
Kind = Callable[[CallSubject, re.Match[str]], type[TpuctlError]]


@dataclass(frozen=True, slots=True)
class KnownAnswer:
    """An answer that is known: by its reason or its text, and what it means."""

    cause: str
    kind: type[TpuctlError] | Kind
    text: str
    hint: Hint | str
    conditions: tuple[str | int, ...]
    """Reasons that mean this, and the codes with which the text does; no code means any."""


def _row(
    cause: str,
    kind: type[TpuctlError] | Kind,
    text: str,
    hint: Hint | str,
    *conditions: str | int,
) -> KnownAnswer:
    return KnownAnswer(cause, kind, text, hint, conditions)


def _address_error(about: CallSubject, match: re.Match[str]) -> type[TpuctlError]:
    """Whether others hold the external addresses, or the region never has as many."""
    wanted = wanted_addresses(about.accelerator_type, about.slices)
    return address_error(wanted, int(match[1]) if match[1] else wanted)


TABLE: tuple[KnownAnswer, ...] = (
    _row(
        "the Cloud TPU API is not enabled",
        PermissionDeniedError,
        r"has not been used in project|SERVICE_DISABLED",
        lambda about, _: f"run: gcloud services enable tpu.googleapis.com{about.of_project}",
        "SERVICE_DISABLED",
    ),
    _row(
        "the project has no active billing account",
        PermissionDeniedError,
        r"billing to be enabled|billing (account )?(is |has been )?(disabled|closed)|"
        r"billingEnabled",
        "run: tpuctl doctor",
        "BILLING_DISABLED",
    ),
    _row(
        "the zone is not open to this project",
        ClosedZoneError,
        r"denied on 'locations/|LOCATION_POLICY_VIOLATED|"
        r"[Ll]ocation.*not found or access.*unauthori",
        lambda about, _: other_zones_hint(about) or "run: tpuctl catalog zones",
        "LOCATION_POLICY_VIOLATED",
    ),
    _row(
        "you may not act as the service account of the workers",
        PermissionDeniedError,
        r"iam\.serviceAccounts?\.?(actAs|User)|serviceAccountUser|access to (the )?service account",
        lambda about, _: grant_command(about, "roles/iam.serviceAccountUser"),
    ),
    _row(
        "the credentials lack the scope",
        PermissionDeniedError,
        r"insufficient authentication scopes",
        "run: gcloud auth application-default login",
        "ACCESS_TOKEN_SCOPE_INSUFFICIENT",
    ),
    _row(
        "too many calls",
        TransientError,
        r"per minute|[Rr]ate limit",
        "wait a minute, then run it again",
        "RATE_LIMIT_EXCEEDED",
        EXHAUSTED,
    ),
    _row(
        "the region has no external addresses left",
        _address_error,
        r"IN_USE_ADDRESSES(?:.*?[Ll]imit:? (\d+))?",
        lambda about, _: without_addresses_hint(about),
    ),
    _row(
        "a policy of the organization forbids external addresses",
        AddressPolicyError,
        r"compute\.vmExternalIpAccess",
        lambda about, _: without_addresses_hint(about),
    ),
    _row(
        "the subnet has no addresses left",
        SubnetFullError,
        r"IP_SPACE_EXHAUSTED|IP space of \S+ is exhausted|free IP addresses",
        lambda about, _: new_subnet_hint(about),
    ),
    _row(
        "there is no such network",
        NoNetworkError,
        r"/global/networks/([\w-]+)|has no network named \W?([\w-]+)",
        lambda about, match: new_network_hint(about, match[1] or match[2]),
        INVALID,
        NOT_FOUND,
    ),
    _row(
        "there is no such subnetwork",
        NoSubnetworkError,
        r"/subnetworks/",
        lambda about, _: new_subnet_hint(about),
        INVALID,
        NOT_FOUND,
    ),
    _row(
        "the reservation is too small",
        CapacityError,
        r"insufficient reserved capacity|reserv\w+ .*(insufficient|not enough|exhausted)",
        lambda about, _: (
            "ask for a smaller type, or leave out --reserved and --reservation; "
            + reservations_hint(about)
        ),
        EXHAUSTED,
        WRONG_STATE,
    ),
    _row(
        "there is no such reservation",
        NotFoundError,
        r"/reservations/",
        lambda about, _: reservations_hint(about),
        NOT_FOUND,
    ),
    _row(
        "no capacity",
        StockoutError,
        r"no more capacity|GCE_STOCKOUT|ZONE_RESOURCE_POOL_EXHAUSTED|[Ss]tock-?out|"
        r"enough resources|no capacity",
        lambda about, _: other_zones_hint(about),
        "GCE_STOCKOUT",
        "ZONE_RESOURCE_POOL_EXHAUSTED",
    ),
    _row(
        "the quota is used up",
        QuotaError,
        r"[Qq]uota|PerProjectPer(Region|Zone)",
        "run: tpuctl node list; tpuctl qr list",
        EXHAUSTED,
    ),
    _row(
        "flex-start does not have this type here",
        UsageError,
        r"(?i)flex[-_ ]?start",
        "leave out --flex-start and --max-run-duration, or try another --zone",
        INVALID,
    ),
    _row(
        "no such zone",
        UsageError,
        r"(?:zone|location) ['\"]?([\w-]+)['\"]? "
        r"(?:is )?(?:not supported|unknown|invalid|not valid)",
        lambda _, match: nearest_zones_hint(match.group(1)),
        INVALID,
        NOT_FOUND,
    ),
    _row(
        "the zone does not have this type",
        UsageError,
        r"configuration.*could not be found|[Aa]ccelerator.*not (found|available)",
        lambda about, _: other_zones_hint(about) or "run: tpuctl catalog types",
        INVALID,
    ),
    _row(
        "a slice of several workers can only be deleted",
        PreconditionError,
        r"(?i)stop.*(more than one worker|multi|pods?\b)",
        lambda about, _: f"run: tpuctl node delete {about.name}{about.in_zone}",
    ),
    _row(
        "a spot slice can only be deleted",
        PreconditionError,
        r"(?i)stop.*(spot|preemptible)",
        lambda about, _: f"run: tpuctl node delete {about.name}{about.in_zone}",
    ),
    _row(
        "its queued resource looks after it",
        PreconditionError,
        r"(?i)stop.*queued resource",
        lambda about, _: f"run: tpuctl node delete {about.name}{about.in_zone}",
    ),
    _row(
        "its state does not allow it",
        PreconditionError,
        r"not (?:supported|allowed|possible) (?:while )?in (?:the )?state '?([A-Z_]+)",
        lambda about, match: state_hint(about, match.group(1)),
        INVALID,
        WRONG_STATE,
    ),
    _row(
        "its nodes would be deleted too",
        PreconditionError,
        r"(?i)\bforce\b",
        lambda about, _: f"run: tpuctl qr delete {about.name} --force{about.in_zone}",
        WRONG_STATE,
        INVALID,
    ),
    _row(
        "another change of it is under way",
        PreconditionError,
        r"(?i)concurrent|another (operation|update|change)|in progress|unable to queue",
        "wait for it, then run this again",
        EXISTS,
        WRONG_STATE,
        ABORTED,
    ),
    _row(
        "",
        ConflictError,
        r"nodes/'? already exists",
        lambda about, _: OTHER_NODE_ID if about.noun == QR else about.hint,
        EXISTS,
    ),
    _row("somebody was faster", PreconditionError, r"", "run it again", ABORTED),
    _row("", PermissionDeniedError, r"", lambda about, m: permission_hint(about, m.string), DENIED),
    _row("", CredentialsError, r"", "run: gcloud auth application-default login", UNAUTHENTICATED),
)


CAUSES: tuple[tuple[type[TpuctlError], RefusalCause], ...] = (
    (QuotaError, RefusalCause.QUOTA),
    (AddressesUsedError, RefusalCause.ADDRESSES),
    (AddressLimitError, RefusalCause.ADDRESSES),
    (SubnetFullError, RefusalCause.ADDRESSES),
    (ClosedZoneError, RefusalCause.PERMISSION),
    (CapacityError, RefusalCause.STOCKOUT),
)
"""What an error says about the capacity of a zone; the first row that fits counts."""


def refusal_cause(error: Exception) -> RefusalCause | None:
    """Why slices were refused; None for an error that is not about where they can be had."""
    return next((cause for kind, cause in CAUSES if isinstance(error, kind)), None)


def error_for(status: Status, about: CallSubject) -> TpuctlError:
    """The error for what the API answered: the cause, its words, and the command to run next."""
    text = first_sentence(status.message) or f"code {status.code}"
    said = _without_names(status.message, about)
    for row in sorted(TABLE, key=lambda row: status.reason not in row.conditions):
        match = _match(row, status, said)
        if match is not None:
            why = f"{row.cause}: " if row.cause else ""
            kind = row.kind if isinstance(row.kind, type) else row.kind(about, match)
            if kind is StockoutError:  # the hint has the other zones
                text = text.partition("; ")[0]
            hint = (row.hint(about, match) if callable(row.hint) else row.hint) or about.hint
            return _with_debug_note(kind(f"{about.subject}: {why}{text}", hint=hint), status)
    kind = BY_CODE.get(status.code, TransientError)
    hints = {UsageError: about.usage or about.hint, TransientError: RETRY_HINT}
    hint = hints.get(kind, about.hint)
    return _with_debug_note(kind(f"{about.subject}: {text}", hint=hint), status)


def first_sentence(message: str) -> str:
    """The first line, without the id that is meant for Google's support."""
    first = message.strip().split("\n")[0]
    return _EID.sub("", first).strip()


def _without_names(message: str, about: CallSubject) -> str:
    """The text without the names of resources: a node may be called `stockout`."""
    bare = _OWN_NAME.sub(r"\1", message)
    return re.sub(rf"(['\"]){re.escape(about.name)}\1", "''", bare) if about.name else bare


def _match(row: KnownAnswer, status: Status, said: str) -> re.Match[str] | None:
    if status.reason in row.conditions:
        return re.match(r"", said)
    codes = [code for code in row.conditions if isinstance(code, int)]
    if codes and status.code not in codes:
        return None
    return re.search(row.text, said)


def _with_debug_note(error: TpuctlError, status: Status) -> TpuctlError:
    """`--debug` shows it as it came."""
    told = f" {status.reason} {dict(status.metadata)}" if status.reason else ""
    error.add_note(f"the API said: code {status.code}{told}: {status.message}")
    return error
