"""Arrays that go from chip to chip within the groups of an axis, bit by bit.

Every function takes and gives what belongs to the own chips; what crosses from worker to worker
does so in one round of `Exchange.run`, listed by both sides in the same order.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np

from localsim.core.collectives.sums import Arrays, Vector
from localsim.core.collectives.team import AxisGroups, Team


def all_gather(
    team: Team, line: AxisGroups, given: Mapping[int, Arrays]
) -> dict[int, list[Arrays]]:
    """Return for each own chip what all chips of its group give, by place."""
    pairs = []
    for group in team.groups(line):
        # Once to each worker: the first chip there takes it for all.
        takers = [group[min(places)] for places in team.places(group).values()]
        pairs += [(source, taker) for source in group for taker in takers]
    got = _deliver(team, pairs, lambda source, _: given[source], given[team.chips[0]])
    taken: dict[range, list[Arrays]] = defaultdict(list)
    for source, taker in got:
        taken[line.group(taker)].append(got[source, taker])
    return {chip: taken[line.group(chip)] for chip in team.chips}


def all_to_all(
    team: Team, line: AxisGroups, given: Mapping[int, Sequence[Arrays]]
) -> dict[int, list[Arrays]]:
    """Return for each own chip the parcels that its group gives it, by place.

    Each chip gives one parcel for every place of its group.
    """
    pairs = [
        (source, target) for group in team.groups(line) for source in group for target in group
    ]
    like = given[team.chips[0]][0]
    got = _deliver(team, pairs, lambda source, target: given[source][line.place(target)], like)
    return {chip: [got[source, chip] for source in line.group(chip)] for chip in team.chips}


def permute(
    team: Team, line: AxisGroups, given: Mapping[int, Arrays], shift: int
) -> dict[int, Arrays]:
    """Return for each own chip what the one `shift` places before it gives, around the end."""
    before = {
        chip: group[(place - shift) % line.size]
        for group in team.groups(line)
        for place, chip in enumerate(group)
    }
    pairs = [(source, target) for target, source in before.items()]
    got = _deliver(team, pairs, lambda source, _: given[source], given[team.chips[0]])
    return {
        chip: [array.copy() if source in team.chips else array for array in got[source, chip]]
        for chip, source in before.items()
        if chip in team.chips
    }


def _deliver(
    team: Team,
    pairs: Iterable[tuple[int, int]],
    parcel: Callable[[int, int], Arrays],
    like: Arrays,
) -> dict[tuple[int, int], Arrays]:
    """Send the parcels in one round; return those for own chips, by source and target chip.

    `parcel` makes the parcel of a pair; all have the shapes and dtypes of `like`.
    """
    outgoing: dict[int, list[Vector]] = defaultdict(list)
    incoming: dict[int, list[Vector]] = defaultdict(list)
    got: dict[tuple[int, int], Arrays] = {}
    for source, target in pairs:
        if source in team.chips and target in team.chips:
            got[source, target] = parcel(source, target)
        elif source in team.chips:
            outgoing[team.worker(target)] += map(np.ascontiguousarray, parcel(source, target))
        elif target in team.chips:
            got[source, target] = [np.empty(array.shape, array.dtype) for array in like]
            incoming[team.worker(source)] += got[source, target]
    team.exchange.run(outgoing, incoming)
    return got
