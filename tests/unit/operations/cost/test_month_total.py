"""What all slices of a context cost in a time, as one number."""

from tpuctl.errors import TransientError
from tpuctl.operations.cost.month_total import usd_between
from tpuctl.store import open_store
from unit.ledger.test_slice_survey import NODES, node, operation
from unit.money.histories import at


class Api:
    """The part of the Cloud TPU API that is asked."""

    def __init__(self, nodes=(), operations=()):
        self.nodes, self.operations = list(nodes), list(operations)

    def read_nodes(self, zone):
        return self.nodes, []

    def list_operations(self, zone):
        if not self.operations:
            raise TransientError("the operations are not listed")
        return self.operations


DELETED = (
    operation("create", f"{NODES}/n1", 0, 1, of=node(7)),
    operation("delete", f"{NODES}/n1", 5, 5.1),
)


def total(api, tmp_path, since, until):
    store = open_store(str(tmp_path / "b"))
    return usd_between(api, store, at(since), at(until), home=tmp_path / "home", now=lambda: at(9))


def test_the_total_of_a_time_is_a_part_of_each_slice(tmp_path):
    assert total(Api(operations=DELETED), tmp_path, 0, 720) == 38.848
    assert total(Api(operations=DELETED), tmp_path, 2, 3) == 9.712


def test_what_was_noted_once_counts_when_the_api_tells_nothing_any_more(tmp_path):
    total(Api(operations=DELETED), tmp_path, 0, 720)
    assert total(Api(), tmp_path, 0, 720) == 38.848
