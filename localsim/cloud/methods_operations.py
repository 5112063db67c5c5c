"""The API's methods of long-running operations."""

from collections.abc import Callable, Mapping

from localsim.cloud.api_methods import ApiMethods
from localsim.cloud.db.collection import Page, page_of
from localsim.cloud.model import filters
from localsim.cloud.model.cloud_errors import Code
from localsim.cloud.model.operations import Operation
from localsim.cloud.model.resource_names import ALL_ZONES, zone_of
from localsim.cloud.nodes import node_lifecycle
from localsim.cloud.state import operation_lifecycle

_FIELDS: Mapping[str, Callable[[Operation], str]] = {
    "name": lambda operation: operation.name,
    "done": lambda operation: str(operation.is_done).lower(),
    "metadata.target": lambda operation: operation.target,
    "metadata.verb": lambda operation: operation.verb,
}


class OperationMethods(ApiMethods):
    """List, get, delete and cancel operations."""

    def list_operations(
        self, parent: str, page_size: int = 0, page_token: str = "", where: str = ""
    ) -> Page[Operation]:
        """A page of the operations of a zone, or of all; `where` is the request's filter."""
        parent = self._project.parent(parent)
        if not where:
            page = self._state.operations.page(parent, page_size, page_token)
            return self._reached(parent, page)
        there = [each for each in self._state.operations if _is_in(zone_of(parent), each)]
        found = filters.select_items(there, _FIELDS, where, "")
        return self._reached(parent, page_of(found, page_size, page_token))

    def get_operation(self, name: str) -> Operation:
        """The operation of that name; raises CloudError."""
        return self._state.operations.get(self._project.resource(name, "operations"))

    def delete_operation(self, name: str) -> None:
        """Delete the record of an operation; its work goes on."""
        with self._state.change():
            self._state.operations.remove(self.get_operation(name).name)

    def cancel_operation(self, name: str) -> None:
        """Record the client's wish; only a node that waits for capacity is given up."""
        state = self._state
        with state.change():
            operation = self.get_operation(name)
            if operation.is_done:
                return
            operation_lifecycle.record_cancellation(state, operation)
            node = state.nodes.find(operation.target)
            if node is not None and node_lifecycle.is_waiting(node):
                sentence = "The operation was cancelled."
                node_lifecycle.give_up(state, node, Code.CANCELLED, sentence, self._clock.now())


def _is_in(zone: str, operation: Operation) -> bool:
    return zone in (ALL_ZONES, zone_of(operation.name))
