"""The machine in the VPC that `local shell` is on: a VM of the project that is not a TPU worker."""

import asyncio
from dataclasses import dataclass

from localsim.workers.metadata_tree import (
    SCOPES,
    ArrayDirectory,
    Tree,
    VerbatimDirectory,
    instance_id,
    service_accounts,
)

NAME = "workstation"


@dataclass(frozen=True, slots=True)
class Workstation:
    """Its programs act as Compute Engine's default account, as on a new VM."""

    project: str
    project_number: int
    zone: str
    address: str
    account: str
    access_token: str

    def metadata(self) -> Tree:
        """Return what its metadata server tells."""
        return {
            "instance": {
                "attributes": VerbatimDirectory(),
                "hostname": f"{NAME}.{self.zone}.c.{self.project}.internal",
                "id": instance_id(NAME),
                "name": NAME,
                "network-interfaces": ArrayDirectory({"0": {"ip": self.address}}),
                "service-accounts": service_accounts(self.account, SCOPES, self.access_token),
                "zone": f"projects/{self.project_number}/zones/{self.zone}",
            },
            "project": {
                "attributes": VerbatimDirectory(),
                "numeric-project-id": str(self.project_number),
                "project-id": self.project,
            },
            "universe": {"universe-domain": "googleapis.com"},
        }

    async def metadata_change(self) -> None:
        """Wait for ever: nothing of it changes."""
        await asyncio.get_running_loop().create_future()

    async def has_network(self) -> None:
        """Return at once."""
