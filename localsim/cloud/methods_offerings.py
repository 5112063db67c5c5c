"""The API's methods of accelerator types, runtime versions and zones."""

from localsim.cloud.api_methods import ApiMethods
from localsim.cloud.db.collection import Page, page_of
from localsim.cloud.model import offerings


class OfferingMethods(ApiMethods):
    """Lists of what the catalog offers."""

    def list_accelerator_types(
        self,
        parent: str,
        page_size: int = 0,
        page_token: str = "",
        where: str = "",
        order_by: str = "",
    ) -> Page[offerings.OfferedType]:
        """A page of the accelerator types of a zone, or of all; `where` is the filter."""
        parent = self._project.parent(parent)
        found = offerings.accelerator_types(parent, where, order_by)
        return self._reached(parent, page_of(found, page_size, page_token))

    def get_accelerator_type(self, name: str) -> offerings.OfferedType:
        """One accelerator type in a zone; raises CloudError."""
        return offerings.accelerator_type(self._project.resource(name, "acceleratorTypes"))

    def list_runtime_versions(
        self,
        parent: str,
        page_size: int = 0,
        page_token: str = "",
        where: str = "",
        order_by: str = "",
    ) -> Page[offerings.OfferedVersion]:
        """A page of the runtime versions of a zone, or of all; `where` is the filter."""
        parent = self._project.parent(parent)
        found = offerings.runtime_versions(parent, where, order_by)
        return self._reached(parent, page_of(found, page_size, page_token))

    def get_runtime_version(self, name: str) -> offerings.OfferedVersion:
        """One runtime version in a zone; raises CloudError."""
        return offerings.runtime_version(self._project.resource(name, "runtimeVersions"))

    def list_locations(
        self, project: str, page_size: int = 0, page_token: str = "", where: str = ""
    ) -> Page[offerings.Location]:
        """A page of the zones of `projects/P`; `where` is the request's filter."""
        found = offerings.locations(self._project.whole(project), where)
        return page_of(found, page_size, page_token)

    def get_location(self, name: str) -> offerings.Location:
        """One zone; raises CloudError."""
        zone = self._project.zone(name)
        return offerings.Location(zone, zone.rpartition("/")[2])
