"""The API's methods of queued resources, and the quota."""

from collections.abc import Sequence

from localsim.cloud.api_methods import ApiMethods
from localsim.cloud.db.collection import Page
from localsim.cloud.model.operations import Operation
from localsim.cloud.model.queued_resources import QueuedResource, QueuedResourceSpec
from localsim.cloud.model.resource_names import checked_id, checked_request_id
from localsim.cloud.nodes import maintenance
from localsim.cloud.requests import request_create
from localsim.cloud.supply import quota
from localsim.cloud.supply.quota import QuotaUsage


class RequestMethods(ApiMethods):
    """The methods of queued resources, and the quota that requests and nodes use."""

    def list_queued_resources(
        self, parent: str, page_size: int = 0, page_token: str = ""
    ) -> Page[QueuedResource]:
        """A page of the queued resources of a zone, or of all (`-`)."""
        parent = self._project.parent(parent)
        return self._reached(parent, self._state.requests.page(parent, page_size, page_token))

    def get_queued_resource(self, name: str) -> QueuedResource:
        """The queued resource of that name; raises CloudError."""
        return self._state.requests.get(self._request(name))

    def create_queued_resource(
        self, parent: str, queued_resource_id: str, spec: QueuedResourceSpec, request_id: str = ""
    ) -> Operation:
        """Begin to create a request; the same `request_id` again returns the same operation."""
        zone = self._project.zone(parent)
        name = f"{zone}/queuedResources/{checked_id('queued resource id', queued_resource_id)}"
        request_id = checked_request_id(request_id)
        with self._state.change():
            return request_create.create(self._state, name, spec, request_id, self._clock.now())

    def delete_queued_resource(
        self, name: str, request_id: str = "", *, force: bool = False
    ) -> Operation:
        """Begin to delete a request; `force` deletes the nodes of an ACTIVE one first."""
        full_name, request_id = self._request(name), checked_request_id(request_id)
        with self._state.change():
            now_s = self._clock.now()
            return request_create.delete(self._state, full_name, request_id, now_s, force=force)

    def reset_queued_resource(self, name: str) -> Operation:
        """Begin to recreate the nodes of an ACTIVE or SUSPENDED request."""
        with self._state.change():
            return request_create.reset(self._state, self._request(name), self._clock.now())

    def perform_maintenance_queued_resource(
        self, name: str, node_names: Sequence[str] = ()
    ) -> Operation:
        """Begin the announced maintenance of nodes of a request; no names mean all nodes."""
        with self._state.change():
            return maintenance.perform_on_request(
                self._state, self._request(name), node_names, self._clock.now()
            )

    def quotas(self) -> tuple[QuotaUsage, ...]:
        """Every quota in every place that it counts in; not a method of the API."""
        return quota.usages(self._state)

    def _request(self, name: str) -> str:
        return self._project.resource(name, "queuedResources")
