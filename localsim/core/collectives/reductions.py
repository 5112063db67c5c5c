"""Sums over the groups of an axis. Every function takes and gives what belongs to the own chips.

What crosses from worker to worker does so in rounds of `Exchange.run`: both sides list it in the
same order.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import TypeAlias

import numpy as np
from numpy.typing import DTypeLike

from localsim.core.collectives import sums
from localsim.core.collectives.sums import Arrays, Block, Vector
from localsim.core.collectives.team import AxisGroups, Team

Owner: TypeAlias = tuple[int, slice]
"""A worker, and the piece of a vector whose sum it gets."""

_ONE_ROUND_SIZE = 4096
"""Up to here everybody sends all it has: a round costs more than their bytes."""


def all_reduce(
    team: Team, line: AxisGroups, given: Mapping[int, Arrays], kind: DTypeLike
) -> dict[int, Vector]:
    """Return for each own chip the sum over its group; chips of this worker share its memory.

    The sum is a vector in which the arrays lie one after the other. Each worker of a group adds one
    share of it and sends the sum to the others.
    """
    size = _size(given[team.chips[0]])
    is_short = size <= _ONE_ROUND_SIZE
    groups = team.groups(line)
    owners = {group: _shares(team.places(group), size, is_short=is_short) for group in groups}
    added = _reduce(team, owners, given, kind)
    result = {group: np.empty(size, kind) for group in groups}
    outgoing: dict[int, list[Vector]] = defaultdict(list)
    incoming: dict[int, list[Vector]] = defaultdict(list)
    for group, pieces in owners.items():
        for index, (worker, piece) in enumerate(pieces):
            share = result[group][piece]
            if worker != team.exchange.worker_id:
                incoming[worker].append(share)
                continue
            share[:] = added[group][index]
            for peer in team.places(group).keys() - {worker}:
                outgoing[peer].append(share)
    if not is_short:
        team.exchange.run(outgoing, incoming)
    return {chip: result[line.group(chip)] for chip in team.chips}


def reduce_scatter(
    team: Team, line: AxisGroups, given: Mapping[int, Arrays], kind: DTypeLike
) -> dict[int, Vector]:
    """Return for each own chip its part of the sum over its group, which is one vector.

    The chip at place i gets part i of `line.size` equal ones.
    """
    part = _size(given[team.chips[0]]) // line.size
    owners = {
        group: [
            (team.worker(chip), slice(place * part, (place + 1) * part))
            for place, chip in enumerate(group)
        ]
        for group in team.groups(line)
    }
    added = _reduce(team, owners, given, kind)
    return {chip: added[line.group(chip)][line.place(chip)].copy() for chip in team.chips}


def _shares(workers: Iterable[int], size: int, *, is_short: bool) -> list[Owner]:
    """Who adds which piece: everybody all of a short vector, each its share of a long one."""
    among = sorted(workers)
    if is_short:
        return [(worker, slice(0, size)) for worker in among]
    ends = [size * number // len(among) for number in range(len(among) + 1)]
    return [(worker, slice(*piece)) for worker, piece in zip(among, pairwise(ends), strict=True)]


def _reduce(
    team: Team,
    owners: Mapping[range, Sequence[Owner]],
    given: Mapping[int, Arrays],
    kind: DTypeLike,
) -> dict[range, dict[int, Vector]]:
    """Add in one round: return by group and number of an own piece its sum over the group.

    Every worker adds what blocks it can (see sums), and sends each block's piece to the owner of
    the piece.
    """
    me, size = team.exchange.worker_id, _size(given[team.chips[0]])
    outgoing: dict[int, list[Vector]] = defaultdict(list)
    incoming: dict[int, list[Vector]] = defaultdict(list)
    parts: dict[range, dict[int, dict[Block, Vector]]] = {}
    for group, pieces in owners.items():
        places = team.places(group)
        blocks = {worker: sums.owned_blocks(own, len(group)) for worker, own in places.items()}
        here = {place: given[group[place]] for place in places[me]}
        leaves = sums.leaves(places[me], here, lambda: np.empty(size, kind))
        own = {block: sums.total(block, len(group), leaves) for block in blocks.pop(me)}
        parts[group] = {}
        for index, (worker, piece) in enumerate(pieces):
            slices = {block: vector[piece] for block, vector in own.items()}
            if worker != me:
                outgoing[worker] += slices.values()
                continue
            for peer, theirs in sorted(blocks.items()):
                length = piece.stop - piece.start
                received = {block: np.empty(length, kind) for block in theirs}
                incoming[peer] += received.values()
                slices |= received
            parts[group][index] = slices
    team.exchange.run(outgoing, incoming)
    return {
        group: {
            index: sums.total(sums.whole_block(len(group)), len(group), blocks)
            for index, blocks in pieces.items()
        }
        for group, pieces in parts.items()
    }


def _size(arrays: Arrays) -> int:
    return sum(each.size for each in arrays)
