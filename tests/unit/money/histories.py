"""Twenty histories of slices as facts, and what each costs, worked out by hand.

v5litepod-16 in us-west4-a costs 9.712 USD/h spot and 19.20 on demand; v5litepod-4 4.80 on demand.
"""

from datetime import UTC, datetime
from typing import NamedTuple

from tpuctl.ledger.slice_facts import (
    ABSENT,
    ApiMoment,
    Sighting,
    identity_fact,
    labels_fact,
    moment_fact,
    sighting_fact,
)
from tpuctl.models.money.slice_life import SliceIdentity

SPOT_16 = ("v5litepod-16", "spot")
DEMAND_16 = ("v5litepod-16", "on-demand")
DEMAND_4 = ("v5litepod-4", "on-demand")
RESERVED_16 = ("v5litepod-16", "reserved")
ZONE = "us-west4-a"
MONTH_S = datetime(2026, 11, 1, tzinfo=UTC).timestamp()
HOUR_S, DAY_S = 3600.0, 86400.0


def at(hours: float) -> float:
    """The moment so many hours after the beginning of November."""
    return MONTH_S + hours * HOUR_S


class History(NamedTuple):
    """Facts, and what they cost in USD from one hour of the month to another one."""

    title: str
    facts: list
    usd: float | None
    is_estimate: bool = False
    since: float = 0.0
    until: float = 720.0
    factors: str = ""
    now: float = 720.0


def slice_(node_id="7", kind=SPOT_16, created=0.0, **more):
    """What a slice is."""
    identity = {"name": "n1", "zone": ZONE, **more}
    return identity_fact(
        SliceIdentity(
            node_id,
            accelerator_type=kind[0],
            provisioning=kind[1],
            created_s=at(created),
            **identity,
        )
    )


def ready(hours, node_id="7"):
    return moment_fact(node_id, ApiMoment.READY, at(hours))


def stop(hours, node_id="7"):
    return moment_fact(node_id, ApiMoment.STOP, at(hours))


def delete(hours, node_id="7"):
    return moment_fact(node_id, ApiMoment.DELETE, at(hours))


def fail(hours, node_id="7"):
    return moment_fact(node_id, ApiMoment.FAIL, at(hours))


def seen(hours, state="READY", node_id="7", *, watched=False):
    return sighting_fact(node_id, Sighting(at(hours), state, watched))


def labels(hours, node_id="7", **pairs):
    return labels_fact(node_id, pairs, at(hours))


HISTORIES = (
    History("deleted", [slice_(), ready(1), delete(3)], 19.424),
    History(
        # READY at 1 exactly; lost between the looks at 3 and 3.5: 2.25 h of 9.712.
        "spot, preempted between two looks, deleted later",
        [slice_(), ready(1), seen(3), seen(3.5, "PREEMPTED"), delete(9)],
        21.852,
        is_estimate=True,
    ),
    History(
        # A supervisor looks all the time: 2 h.
        "spot, preempted before a supervisor's eyes",
        [slice_(), ready(1), seen(2.9), seen(3, "PREEMPTED", watched=True), delete(4)],
        19.424,
        is_estimate=True,
    ),
    History(
        # 1-2, 5-6, 8-10: 4 h of 4.80.
        "stopped and started twice",
        [slice_(kind=DEMAND_4), ready(1), stop(2), ready(5), stop(6), ready(8), delete(10)],
        19.2,
    ),
    History(
        # Two slices for 2 h and 2.5 h of 9.712.
        "multislice, one READY earlier",
        [
            *(slice_(n, name=f"m-{n}", request="m") for n in ("1", "2")),
            *(ready(1, "1"), ready(0.5, "2"), delete(3, "1"), delete(3, "2")),
        ],
        43.704,
    ),
    History(
        # 24 h of 9.712 until the 2nd, then 12 h of 8.00 (the new table: 0.50 a chip).
        "the price changes in the middle",
        [slice_(), ready(0), delete(36)],
        329.088,
    ),
    History(
        # A request of 4 h: the API deletes the node itself, and says when.
        "the end of its time to live",
        [slice_(created=1), ready(1.1), seen(2), delete(5.1), seen(5.2, ABSENT)],
        38.848,
    ),
    History(
        # The same slice, seen by two at other moments.
        "two observers",
        [slice_(), slice_(), ready(1), seen(1.5), seen(1.6), seen(2.2), delete(3), delete(3)],
        19.424,
    ),
    History(
        # Created at 0, READY within 3 minutes as a rule; seen at 10, gone a week later: half way.
        # 0.05 .. 94 h, the first 24 at 9.712: 23.95 x 9.712 + 70 x 8.
        "an observer that was away for a week",
        [slice_(), seen(10), seen(178, ABSENT)],
        792.6024,
        is_estimate=True,
    ),
    History(
        # ACTIVE by a job's record from 1 to 1.5, though another request won.
        "a request that became ACTIVE and lost",
        [slice_(request="j-2"), seen(1, watched=True), seen(1.5, ABSENT, watched=True)],
        4.856,
        is_estimate=True,
    ),
    History(
        # Suspended: its node is lost between 2 and 3, and nothing is billed while it is SUSPENDED.
        "a suspended request",
        [slice_(request="q"), ready(1), seen(2), seen(3, "PREEMPTED"), seen(9, "PREEMPTED")],
        14.568,
        is_estimate=True,
    ),
    History("reserved: no list price", [slice_(kind=RESERVED_16), ready(1), delete(3)], None),
    History(
        # 2 h x 19.20 x 0.45.
        "a discount",
        [slice_(kind=DEMAND_16), ready(1), delete(3)],
        17.28,
        factors="on-demand=0.45,spot=0.9",
    ),
    History(
        # Somebody whose clock is an hour ahead saw it READY an hour after its end.
        "an observer with a wrong clock",
        [slice_(), ready(1), seen(3.9), delete(3), seen(4.1, ABSENT)],
        19.424,
    ),
    History(
        # n1 of before and n1 of now: 1 h and 2 h of 9.712.
        "a name that is used again",
        [slice_("1"), ready(1, "1"), delete(2, "1"), slice_("2"), ready(3, "2"), delete(5, "2")],
        29.136,
    ),
    History(
        # Seen READY at 2 and not there at 2.5: half way, 1.25 h.
        "deleted by somebody else, unseen",
        [slice_(), ready(1), seen(2), seen(2.5, ABSENT)],
        12.14,
        is_estimate=True,
    ),
    History(
        # Only the hours of November: 2 of 9.712.
        "the boundary of a month",
        [slice_(created=-30), ready(-30), delete(2)],
        19.424,
    ),
    History(
        # The second day alone: 24 h of 8.00.
        "one day of several",
        [slice_(), ready(3), delete(60)],
        192.0,
        since=24.0,
        until=48.0,
    ),
    History(
        # Seen a moment ago: 1 h 30 so far.
        "still running",
        [slice_(), ready(1), seen(2.5)],
        14.568,
        now=2.5,
    ),
    History("its creation failed", [slice_(), seen(0.01, "CREATING"), fail(0.02)], 0.0),
    History(
        # READY 1-3, REPAIRING by 3.5, READY again by 5 (seen at 4.5 REPAIRING), deleted at 6:
        # 1 .. 3.25 and 4.75 .. 6 = 3.5 h.
        "repaired",
        [
            *(slice_(), ready(1), seen(3), seen(3.5, "REPAIRING"), seen(4.5, "REPAIRING")),
            *(seen(5), delete(6)),
        ],
        33.992,
        is_estimate=True,
    ),
    History(
        # What it costs does not change with its labels.
        "its labels change",
        [slice_(), labels(0, team="a"), ready(1), labels(2, team="b"), delete(3)],
        19.424,
    ),
)
