"""Collectives against numpy, whatever the mesh and however many workers it is dealt to."""

import hashlib
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unit.localsim.core.mesh.crews import Crew
from unit.localsim.core.mesh.processes import free_ports, slice_environment, started

TYPES = {"v5litepod-4": (2, 2), "v5litepod-16": (4, 4), "v4-16": (2, 2, 2)}
DTYPES = ["f4", "f8", "f2", "i1", "i4", "i8", "u1", "?", ">f4"]


@pytest.fixture(scope="module", params=[1, 2, 4])
def crew(request):
    crew = Crew(request.param)
    yield crew
    crew.close()


def groups_of(sizes, axis):
    """The chips of each group, by place, of a grid whose last axis varies fastest."""
    numbers = np.arange(math.prod(sizes.values())).reshape(tuple(sizes.values()))
    lines = np.moveaxis(numbers, list(sizes).index(axis), -1)
    return lines.reshape(-1, sizes[axis]).tolist()


def sum_in_order(values):
    """Neighbours first, in the format in which the chips add."""
    whole = values[0].dtype.kind in "biu"
    level = [each.astype(np.int32 if whole else np.float32) for each in values]
    level += [None] * ((1 << (len(level) - 1).bit_length()) - len(level))
    while len(level) > 1:
        pairs = zip(level[::2], level[1::2], strict=True)
        level = [left if right is None else left + right for left, right in pairs]
    return level[0]


def all_reduce(values):
    return [sum_in_order(values)] * len(values)


def reduce_scatter(values, dim=0):
    return np.split(sum_in_order(values), len(values), dim)


def all_gather(values, dim=0):
    return [np.concatenate(values, dim)] * len(values)


def all_to_all(values, split=0, concat=0):
    parts = [np.split(each, len(values), split) for each in values]
    return [np.concatenate([each[place] for each in parts], concat) for place in range(len(values))]


def permute(values, shift=1):
    return [values[(place - shift) % len(values)] for place in range(len(values))]


ORACLES = {
    each.__name__: each for each in (all_reduce, reduce_scatter, all_gather, all_to_all, permute)
}


def expected(operation, values, sizes, axis, how):
    result = [None] * len(values)
    for group in groups_of(sizes, axis):
        for chip, got in zip(
            group, ORACLES[operation]([values[chip] for chip in group], **how), strict=True
        ):
            result[chip] = got
    return result


def same(got, wanted):
    assert got.dtype == wanted.dtype.newbyteorder("=")
    assert got.shape == wanted.shape
    assert got.tobytes() == np.ascontiguousarray(wanted, got.dtype).tobytes()


def run(crew, kind, sizes, operation, values, axis, how):
    """The result for every chip of the slice, in order."""

    def work(mesh):
        own = values[mesh.first_chip : mesh.first_chip + len(mesh.chips)]
        return getattr(mesh.grid(**sizes), operation)(own, axis, **how)

    results = crew.each(work, crew.meshes(kind))
    assert all(isinstance(each, list) for each in results), results
    return [chip for worker in results for chip in worker]


@st.composite
def grids(draw):
    kind = draw(st.sampled_from(sorted(TYPES)))
    chips = math.prod(TYPES[kind])
    first = draw(st.sampled_from([each for each in range(1, chips + 1) if chips % each == 0]))
    rest = chips // first
    second = draw(st.sampled_from([each for each in range(1, rest + 1) if rest % each == 0]))
    return kind, {"data": first, "model": second, "stage": rest // second}


@st.composite
def cases(draw):
    kind, sizes = draw(grids())
    operation = draw(st.sampled_from(sorted(ORACLES)))
    axis = draw(st.sampled_from(sorted(sizes)))
    shape = draw(st.lists(st.integers(0, 3), min_size=1, max_size=3))
    how = {}
    if operation != "all_reduce" and operation != "permute":
        names = ("split", "concat") if operation == "all_to_all" else ("dim",)
        how = {name: draw(st.integers(-len(shape), len(shape) - 1)) for name in names}
        shape[next(iter(how.values()))] *= sizes[axis]
    if operation == "permute":
        how = {"shift": draw(st.integers(-3, 9))}
    return kind, sizes, operation, axis, tuple(shape), draw(st.sampled_from(DTYPES)), how


@given(cases())
def test_every_chip_gets_what_numpy_says(crew, case):
    kind, sizes, operation, axis, shape, dtype, how = case
    random = np.random.default_rng(len(shape))
    values = [
        (random.standard_normal(shape) * 50).astype(dtype) for _ in range(math.prod(sizes.values()))
    ]
    got = run(crew, kind, sizes, operation, values, axis, how)
    for each, wanted in zip(got, expected(operation, values, sizes, axis, how), strict=True):
        same(each, wanted)


@pytest.mark.parametrize("operation", sorted(ORACLES))
@pytest.mark.parametrize("axis", ["data", "model"])
def test_long_arrays_go_in_shares_with_the_same_bits(crew, operation, axis):
    random = np.random.default_rng(7)
    sizes = {"data": 4, "model": 4}
    values = [
        (random.standard_normal((24, 1001)) * 10.0 ** (chip % 7)).astype("f4") for chip in range(16)
    ]
    got = run(crew, "v5litepod-16", sizes, operation, values, axis, {})
    for each, wanted in zip(got, expected(operation, values, sizes, axis, {}), strict=True):
        same(each, wanted)


def test_groups_of_any_size_are_added_in_the_same_order(crew):
    """v4-384 is 4x4x12: groups of 3 and 12 lie across the workers' chips."""
    random = np.random.default_rng(8)
    values = list(random.standard_normal((192, 5)).astype("f4"))
    for sizes, axis in [({"data": 64, "model": 3}, "model"), ({"model": 12, "data": 16}, "model")]:
        got = run(crew, "v4-384", sizes, "all_reduce", values, axis, {})
        for each, wanted in zip(got, expected("all_reduce", values, sizes, axis, {}), strict=True):
            same(each, wanted)


def test_arrays_sent_together_come_back_together(crew):
    def work(mesh):
        own = range(mesh.first_chip, mesh.first_chip + len(mesh.chips))
        given = [[np.float32(chip), np.full((2, 3), chip, "i4"), []] for chip in own]
        return mesh.all_reduce(given)

    for entries in crew.each(work, crew.meshes("v5litepod-4")):
        for scalar, whole, nothing in entries:
            assert (scalar.shape, scalar.dtype, float(scalar)) == ((), np.float32, 6.0)
            assert (whole.dtype, whole.tolist()) == (np.int32, [[6] * 3] * 2)
            assert nothing.shape == (0,)


@pytest.mark.parametrize("operation", sorted(ORACLES))
def test_numbers_that_are_none_pass_with_their_bits(crew, operation):
    patterns = np.array([0x7FC00123, 0xFF800000, 0x80000000, 0x00000001], np.uint32)
    values = [patterns.view(np.float32), *[np.full(4, -0.0, np.float32)] * 3]
    sizes = {"chips": 4}
    got = run(crew, "v5litepod-4", sizes, operation, values, "chips", {})
    for each, wanted in zip(got, expected(operation, values, sizes, "chips", {}), strict=True):
        same(each, wanted)


# Real processes: the meshes of all three types, one after the other, on the same workers.
PROGRAM = """
import hashlib, os, sys, time
import numpy as np
from localsim.core.wire.exchange import Exchange
from localsim.core.wire.rendezvous import DATA, PULSE, RunIdentity, connect_peers
from localsim.core.mesh import Mesh
from localsim.core.wire.peer_monitor import PeerMonitor

addresses = [("127.0.0.1", int(each)) for each in os.environ["PORTS"].split(",")]
me = RunIdentity("1", "any", len(addresses), int(os.environ["TPU_WORKER_ID"]))
links = connect_peers(me, addresses, time.monotonic() + 60)
exchange = Exchange(me.worker_id, links[DATA], PeerMonitor(me.worker_id, links[PULSE]))
for kind in sys.argv[1:]:
    mesh = Mesh(kind, exchange)
    own = range(mesh.first_chip, mesh.first_chip + len(mesh.chips))
    grid = mesh.grid(data=2, model=mesh.chip_count // 2)
    given = [np.random.default_rng(chip).standard_normal((8, 1000)).astype("f4") for chip in own]
    for name in ("all_gather", "all_reduce", "all_to_all", "permute", "reduce_scatter"):
        for axis in ("data", "model"):
            for chip, got in zip(own, getattr(grid, name)(given, axis), strict=True):
                print(kind, name, axis, chip, hashlib.sha256(got.tobytes()).hexdigest())
exchange.close()
"""


def lines_expected():
    for kind, shape in sorted(TYPES.items()):
        count = math.prod(shape)
        values = [
            np.random.default_rng(chip).standard_normal((8, 1000)).astype("f4")
            for chip in range(count)
        ]
        sizes = {"data": 2, "model": count // 2}
        for name in sorted(ORACLES):
            for axis in sizes:
                for chip, wanted in enumerate(expected(name, values, sizes, axis, {})):
                    digest = hashlib.sha256(wanted.tobytes()).hexdigest()
                    yield f"{kind} {name} {axis} {chip} {digest}"


@pytest.mark.system
@pytest.mark.parametrize("worker_count", [1, 2, 4])
def test_processes_come_to_the_same_bits(worker_count):
    ports = ",".join(map(str, free_ports(worker_count)))
    environment = slice_environment("v5litepod-4", 1, PORTS=ports)
    with started(["-c", PROGRAM, *sorted(TYPES)], environment, range(worker_count)) as workers:
        answers = [worker.communicate(timeout=100) for worker in workers]
    lines = [line for out, _ in answers for line in out.splitlines()]
    assert sorted(lines) == sorted(lines_expected()), [error for _, error in answers]
