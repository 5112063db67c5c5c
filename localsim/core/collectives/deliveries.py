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
    """What each chip of a group gives, by place, for each of its chips."""
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
    """Each chip gives one parcel for every place, and gets one from every place."""
    pairs = [
        (source, target) for group in team.groups(line) for source in group for target in group
    ]
    like = given[team.chips[0]][0]
    got = _deliver(team, pairs, lambda source, target: given[source][line.place(target)], like)
    return {chip: [got[source, chip] for source in line.group(chip)] for chip in team.chips}


def permute(
    team: Team, line: AxisGroups, given: Mapping[int, Arrays], shift: int
) -> dict[int, Arrays]:
    """Each chip gets what the one `shift` places before it gives, around the end."""
    before = {
        chip: group[(place - shift) % line.size]
        for group in team.groups(line)
        for place, chip in enumerate(group)
    }
    pairs = [(source, target) for target, source in before.items()]
    got = _deliver(team, pairs, lambda source, _: given[source], given[team.chips[0]])
    return {
        chip: [each.copy() if source in team.chips else each for each in got[source, chip]]
        for chip, source in before.items()
        if chip in team.chips
    }


def _deliver(
    team: Team,
    pairs: Iterable[tuple[int, int]],
    parcel: Callable[[int, int], Arrays],
    like: Arrays,
) -> dict[tuple[int, int], Arrays]:
    """One round: what the own chips get, by source and target; all parcels are alike in shape."""
    outgoing: dict[int, list[Vector]] = defaultdict(list)
    incoming: dict[int, list[Vector]] = defaultdict(list)
    got: dict[tuple[int, int], Arrays] = {}
    for source, target in pairs:
        if source in team.chips and target in team.chips:
            got[source, target] = parcel(source, target)
        elif source in team.chips:
            outgoing[team.worker(target)] += map(np.ascontiguousarray, parcel(source, target))
        elif target in team.chips:
            got[source, target] = [np.empty(each.shape, each.dtype) for each in like]
            incoming[team.worker(source)] += got[source, target]
    team.exchange.run(outgoing, incoming)
    return got
