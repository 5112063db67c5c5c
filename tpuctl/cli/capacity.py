"""`tpuctl capacity`: where a type can be had."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tpuctl import catalog
from tpuctl.byte_size import count_text, names_text
from tpuctl.cli.shell.options import Shared, completed_by
from tpuctl.cli.shell.runtime import Runtime
from tpuctl.cli.shell.tables.listing import Listing
from tpuctl.cli.shell.tables.values import Columns, attributes, moment_of, usd_of, values_of
from tpuctl.errors import UsageError
from tpuctl.models.capacity.capacity_event import CapacityEvent, Reservation
from tpuctl.models.duration import age
from tpuctl.models.node import Provisioning
from tpuctl.models.quota_holders import QuotaHolder
from tpuctl.operations.capacity import next_step
from tpuctl.operations.capacity.capacity_page import CapacityFacts, CapacityQuestion, capacity_page
from tpuctl.operations.capacity.type_names import resolve_type
from tpuctl.operations.capacity.zone_capacity import (
    CapacityPage,
    Chance,
    ZoneCapacity,
    ZoneOffer,
)

if TYPE_CHECKING:
    from rich.text import Text

MOST_DAYS = 30.0
TIERS = (
    Provisioning.ON_DEMAND,
    Provisioning.SPOT,
    Provisioning.FLEX_START,
    Provisioning.RESERVED,
    Provisioning.BEST_EFFORT,
)
SHOWN_TIERS = {
    Provisioning.ON_DEMAND: "",
    Provisioning.SPOT: "spot ",
    Provisioning.FLEX_START: "flex ",
}
WITH_QUOTA = frozenset({Provisioning.ON_DEMAND, Provisioning.SPOT, Provisioning.BEST_EFFORT})
LEAST = ("reserved", "life", "flex usd/h", "wait", "cause", "spot quota", "how")
LINES_AROUND = 5
"""Lines of the window that are not zones: two above, two below, and the cursor's."""
MOST_HOLDERS = 4
HOLDER: Columns[QuotaHolder] = attributes("noun", "name", "state", "amount", zone="slices.zone")
RESERVATION: Columns[Reservation] = attributes("name", "state", "size", "used", "unit")


def _history(name: str) -> Callable[[ZoneOffer], Any]:
    return lambda offer: getattr(offer.history, name)


OFFER: Columns[ZoneOffer] = {
    "provisioning": lambda offer: offer.provisioning.value,
    "chance": lambda offer: offer.chance.value,
    "usd_per_hour": lambda offer: usd_of(offer.usd_per_hour),
    "quota_left": lambda offer: offer.quota.left if offer.quota else None,
    "quota_limit": lambda offer: offer.quota.limit if offer.quota else None,
    "quota_unit": lambda offer: offer.quota.unit if offer.quota else None,
    "quota_holders": lambda offer: [values_of(each, HOLDER) for each in offer.holders],
    "refusals": _history("refusals"),
    "last_refusal": lambda offer: _moment(offer.history.last_refusal),
    "last_refusal_cause": lambda offer: _cause(offer.history.last_refusal),
    "waiting": _history("waiting"),
    "grants": _history("grants"),
    "last_grant": lambda offer: _moment(offer.history.last_grant),
    "median_wait_s": _history("wait_s"),
    "preemptions": _history("preemptions"),
    "median_life_s": _history("life_s"),
}
"""One way to get a slice as a JSON object. Keys are public."""
ZONE: Columns[ZoneCapacity] = {
    "zone": lambda found: found.zone,
    "chance": lambda found: found.best.chance.value,
    "provisioning": lambda found: found.best.provisioning.value,
    "distance": lambda found: found.distance,
    "has_type": lambda found: found.has_type,
    "offers": lambda found: [values_of(each, OFFER) for each in found.offers],
    "reservations": lambda found: [values_of(each, RESERVATION) for each in found.reservations],
    "reservation_names": lambda found: list(found.reservation_names),
}
"""One zone as a JSON object. Keys are public."""


def capacity(
    runtime: Runtime,
    accelerator_type: Annotated[
        str,
        typer.Argument(
            metavar="TYPE",
            help="Such as v5litepod-16, or v5e-16.",
            autocompletion=completed_by("type"),
        ),
    ],
    spot: Annotated[bool, typer.Option("--spot", help="Only spot capacity.")] = False,
    provisioning: Annotated[
        str | None,
        typer.Option(
            metavar="HOW",
            help="Only on-demand, spot, flex-start, reserved or best-effort.",
            autocompletion=lambda: list(TIERS),
        ),
    ] = None,
    days: Annotated[
        float,
        typer.Option(
            metavar="N", help="How many days to look back: 7, or up to 30.", show_default=False
        ),
    ] = 7.0,
) -> None:
    """Show where a type can be had: quota, what was refused and granted lately, prices.

    \b
        reserved   a reservation of the project has room for a slice
        granted    a slice was granted there lately, and none was refused since
        open       nothing is known against it
        refused    a slice was refused in the last six hours and none granted since, or one waits
        no-quota   what is left of the quota, or of the reservation, is not enough
        silent     the zone does not answer
        closed     the API does not offer the type there, or not to this project

    The best chance comes first, then the lowest price, then the zone nearest to the bucket. The
    last line is the command to run next.
    """
    question = _question(runtime, accelerator_type, _tier(provisioning, spot=spot), days)
    facts = CapacityFacts() if runtime.has_no_local_state() else _watch(runtime, question)
    _show(runtime, question, capacity_page(question, facts))


def _question(
    runtime: Runtime, typed: str, tier: Provisioning | None, days: float
) -> CapacityQuestion:
    """What was asked, checked; raises UsageError, NotFoundError."""
    if not 0 < days <= MOST_DAYS:
        raise UsageError(f"--days must be from 1 to {MOST_DAYS:.0f}, not {days:g}")
    kind = resolve_type(typed)
    zones, only = catalog.zones_of(kind), runtime.shared.zone
    if only is not None and only not in zones:
        raise UsageError(f"{kind} is not offered in {only}", hint=f"it is in: {', '.join(zones)}")
    chosen = zones if only is None else (only,)
    return CapacityQuestion(kind, chosen, runtime.now(), tier, days)


def _tier(typed: str | None, *, spot: bool) -> Provisioning | None:
    """The kind of capacity that --provisioning or --spot names; raises UsageError."""
    if typed is None:
        return Provisioning.SPOT if spot else None
    if typed not in TIERS:
        raise UsageError(
            f"{typed!r} is not a way to get capacity", hint=f"choose among {', '.join(TIERS)}"
        )
    if spot and typed != Provisioning.SPOT:
        raise UsageError("--spot and --provisioning exclude each other", hint="leave one out")
    return Provisioning(typed)


def _watch(runtime: Runtime, question: CapacityQuestion) -> CapacityFacts:
    """The facts when all have answered; a terminal shows meanwhile what is known so far."""
    newest = [CapacityFacts()]
    title = _title(question, runtime.context.name)

    def draw(height: int) -> "Text":
        return _page_text(runtime, question, newest[0], title, height - LINES_AROUND)

    with _shown_meanwhile(runtime, draw):
        from tpuctl.operations.capacity.capacity_survey import (
            survey_capacity,
        )  # the page is shown before

        for newest[0] in survey_capacity(runtime, question):
            pass
    return newest[0]


@contextmanager
def _shown_meanwhile(runtime: Runtime, draw: Callable[[int], "Text"]) -> Iterator[None]:
    """Show a page while it fills in, where a person looks at a terminal."""
    is_watched = runtime.output.is_screen and runtime.err.isatty() and not runtime.shared.quiet
    if not is_watched:
        yield
        return
    from tpuctl.cli.shell.progress_display import show_page

    with show_page(runtime, draw):
        yield


def _title(question: CapacityQuestion, context: str) -> str:
    return f"{question.accelerator_type} in {context}"


def _page_text(
    runtime: Runtime, question: CapacityQuestion, facts: CapacityFacts, title: str, most: int
) -> "Text":
    """The page by what is known so far, with so many zones at most."""
    from rich.text import Text

    from tpuctl.cli.shell.output import Output
    from tpuctl.cli.shell.progress_display import TerminalPage

    paper = TerminalPage()
    shared = Shared(output=runtime.shared.output)
    page = capacity_page(question, facts)
    listing, rows = _screen_listing(question, page), page.zones[: max(1, most)]
    Output(shared, paper, paper, runtime.now).items(rows, listing, title=title)
    return Text.from_ansi(paper.getvalue().rstrip("\n") + "\nasking …")


def _show(runtime: Runtime, question: CapacityQuestion, page: CapacityPage) -> None:
    """Print the page, what is not known, who holds quota, and the next command."""
    output = runtime.output
    step = next_step.next_step(page)
    if output.is_document:
        output.fields(
            {
                "accelerator_type": page.accelerator_type,
                "days": question.days,
                "observations": page.observations,
                "zones": [values_of(zone, ZONE) for zone in page.zones],
                "unknown": list(page.troubles),
                "next": step,
            }
        )
        return
    title = _title(question, runtime.context_name.value)
    listing = _screen_listing(question, page) if output.is_screen else _listing(question)
    output.items(page.zones, listing, title=title)
    for trouble in page.troubles:
        output.warn(trouble)
    for line in _quota_lines(page):
        output.note(line)
    output.note(_observations_text(page, question.days))
    output.note(f"next: {step}")


def _observations_text(page: CapacityPage, days: float) -> str:
    """`12 observations of v5litepod-16 in the last 7 days`."""
    if page.observations is None:
        return "what was refused and granted lately is not known"
    count = count_text(page.observations, "observation")
    return f"{count} of {page.accelerator_type} in the last {days:g} days"


def _quota_lines(page: CapacityPage) -> Iterator[str]:
    """Who holds the quota that is not enough, a line for each zone and kind of it."""
    for zone in page.zones:
        for offer in zone.offers:
            if offer.chance == Chance.NO_QUOTA and offer.quota and offer.holders:
                held = [
                    f"{each.noun} {each.name} ({each.amount}, {each.state})"
                    for each in offer.holders
                ]
                by = names_text(held, MOST_HOLDERS)
                what = f"{zone.zone} {offer.provisioning}"
                yield f"{what}: {offer.quota.description(1)}, held by {by}"


def _listing(question: CapacityQuestion) -> Listing[ZoneCapacity]:
    """The table of zones: quota and price of each kind of capacity, and what was seen of it."""
    one = question.provisioning
    columns: dict[str, str | Callable[[ZoneCapacity], Any]] = {"zone": "zone", "chance": "chance"}
    if one is None:
        columns["how"] = "provisioning"
    for tier, prefix in {one: ""}.items() if one else SHOWN_TIERS.items():
        if tier in WITH_QUOTA:
            columns[f"{prefix}quota"] = partial(_quota_cell, tier)
        columns[f"{prefix}usd/h"] = partial(_price_cell, tier)
    columns |= {
        "refused": lambda zone: _moment(_newest(zone, "last_refusal")),
        "cause": _cause_cell,
        "granted": lambda zone: _moment(_newest(zone, "last_grant")),
        "wait": lambda zone: _age(zone.best.history.wait_s),
        "life": _life_cell,
        "reserved": _reserved_cell,
    }
    return Listing(ZONE, columns, least=LEAST)


def _screen_listing(question: CapacityQuestion, page: CapacityPage) -> Listing[ZoneCapacity]:
    """The table without the columns in which no zone has a value: a person reads the others."""
    whole = _listing(question)
    shown = {
        heading: value
        for heading, value in whole.table.items()
        if isinstance(value, str) or any(value(zone) is not None for zone in page.zones)
    }
    return Listing(whole.keys, shown, whole.least)


def _quota_cell(tier: Provisioning, zone: ZoneCapacity) -> str | None:
    """`8/16`: what is left of the limit."""
    offer = zone.offer(tier)
    return f"{offer.quota.left}/{offer.quota.limit}" if offer and offer.quota else None


def _price_cell(tier: Provisioning, zone: ZoneCapacity) -> Any:
    offer = zone.offer(tier)
    return usd_of(offer.usd_per_hour) if offer else None


def _cause_cell(zone: ZoneCapacity) -> str | None:
    """`stockout spot x4`: of the last refusal, and how many there were."""
    refusal = _newest(zone, "last_refusal")
    if refusal is None:
        return None
    count = sum(offer.history.refusals for offer in zone.offers)
    times = f" x{count}" if count > 1 else ""
    return f"{_cause(refusal)} {refusal.provisioning}{times}"


def _life_cell(zone: ZoneCapacity) -> str | None:
    """The median life of slices that were taken away, and how many of them there were."""
    taken = [offer.history for offer in zone.offers if offer.history.preemptions]
    if not taken:
        return None
    return f"{_age(taken[0].life_s) or '?'} x{sum(each.preemptions for each in taken)}"


def _reserved_cell(zone: ZoneCapacity) -> str | None:
    """`r1 8/16 chips`: what is left of each reservation."""
    listed = [f"{each.name} {each.left}/{each.size} {each.unit}" for each in zone.reservations]
    known = {each.name for each in zone.reservations}
    return ", ".join([*listed, *(n for n in zone.reservation_names if n not in known)]) or None


def _newest(zone: ZoneCapacity, name: str) -> CapacityEvent | None:
    """The newest event of that name of all offers."""
    found = [event for offer in zone.offers if (event := getattr(offer.history, name))]
    return max(found, key=lambda event: event.time_s, default=None)


def _moment(event: CapacityEvent | None) -> Any:
    return moment_of(event.time_s if event else None)


def _cause(event: CapacityEvent | None) -> str | None:
    return event.cause.value if event and event.cause else None


def _age(duration_s: float | None) -> str | None:
    return None if duration_s is None else age(duration_s)
