"""Every answer of the API becomes a cause and the command to run next."""

from dataclasses import replace

import grpc
import pytest
from google.rpc import error_details_pb2, status_pb2

from tpuctl.api.tpu.explain import (
    ClosedZoneError,
    QuotaError,
    StockoutError,
    error_for,
    first_sentence,
)
from tpuctl.api.tpu.hints import NODE, QR, CallSubject
from tpuctl.api.tpu.network_errors import (
    AddressesUsedError,
    AddressLimitError,
    AddressPolicyError,
    NoNetworkError,
    NoSubnetworkError,
    SubnetFullError,
)
from tpuctl.api.tpu.rpc_errors import DETAILS_KEY, status_of
from tpuctl.errors import (
    CapacityError,
    ConflictError,
    CredentialsError,
    NotFoundError,
    PermissionDeniedError,
    PreconditionError,
    TransientError,
    UsageError,
)
from tpuctl.models.operation import Status

EID = " [EID: 0x7be1b0e5b4b29c2e]"
CREATE = CallSubject(
    "create node 'n1'", NODE, "n1", "us-west4-a", "demo", "v5litepod-16", hint="look"
)
REQUEST = CallSubject("queued resource 'q1'", QR, "q1", "us-west4-a", "demo", "v5litepod-16")
LIST = CallSubject("list nodes", NODE, zone="mars", project="demo")

# code, message, what was asked -> error, cause, a part of the hint
ROWS = [
    (
        Status(8, f"There is no more capacity in the zone us-west4-a; you can try in another{EID}"),
        CREATE,
        StockoutError,
        "no capacity",
        "wait in line: tpuctl qr create n1 -t v5litepod-16 --zone us-west4-a",
    ),
    (
        Status(8, "ZONE_RESOURCE_POOL_EXHAUSTED: the zone does not have enough resources"),
        CREATE,
        StockoutError,
        "no capacity",
        "v5litepod-16 is also in us-",
    ),
    (
        Status(8, "The request failed: GCE_STOCKOUT"),
        REQUEST,
        StockoutError,
        "no capacity",
        "repeat it with another --zone",
    ),
    (
        Status(
            8,
            "Quota limit 'TPUV2sPodPerProjectPerRegionForTPUAPI' has been exceeded. "
            f"Limit: 32 in region us-central1, zone us-central1-a.{EID}",
        ),
        CREATE,
        QuotaError,
        "the quota is used up",
        "tpuctl node list",
    ),
    (
        Status(8, "TPUV4sPreemptiblePodPerProjectPerRegionForTPUAPI exhausted. Limit 0 in region"),
        REQUEST,
        QuotaError,
        "the quota is used up",
        "tpuctl qr list",
    ),
    (
        Status(8, "Quota 'IN_USE_ADDRESSES' exceeded. Limit: 8.0 in region us-west4."),
        CREATE,
        AddressesUsedError,
        "the region has no external addresses left",
        "leave them out: --internal-ips, or internal_ips: true in a job file; the subnet needs "
        "Private Google Access: gcloud compute networks subnets update default --region=us-west4 "
        "--enable-private-ip-google-access --project=demo",
    ),
    (
        Status(8, "Quota 'IN_USE_ADDRESSES' exceeded.  Limit: 8.0 in region us-west4."),
        replace(CREATE, slices=4, subnetwork="mine"),
        AddressLimitError,
        "the region has no external addresses left",
        "gcloud compute networks subnets update mine --region=us-west4",
    ),
    (
        Status(9, "Constraint constraints/compute.vmExternalIpAccess violated for project 12."),
        REQUEST,
        AddressPolicyError,
        "a policy of the organization forbids external addresses",
        "internal_ips: true in a job file",
    ),
    (
        Status(8, "IP_SPACE_EXHAUSTED: Instance 'i' creation failed: IP space of 'projects/p/...'"),
        replace(CREATE, network="mine"),
        SubnetFullError,
        "the subnet has no addresses left",
        "gcloud compute networks subnets create tpu-us-west4 --network=mine --region=us-west4",
    ),
    (
        Status(5, "The resource 'projects/demo/global/networks/default' was not found"),
        REQUEST,
        NoNetworkError,
        "there is no such network",
        "gcloud compute networks create default --subnet-mode=auto --project=demo",
    ),
    (
        Status(3, 'Project "demo" has no network named "default".'),
        CREATE,
        NoNetworkError,
        "there is no such network",
        "gcloud compute networks create default",
    ),
    (
        Status(5, "The resource 'projects/demo/regions/us-west4/subnetworks/s' was not found"),
        CREATE,
        NoSubnetworkError,
        "there is no such subnetwork",
        "gcloud compute networks subnets create tpu-us-west4 --network=default",
    ),
    (
        Status(8, "Quota exceeded for quota metric 'Read requests' and limit 'per minute'"),
        LIST,
        TransientError,
        "too many calls",
        "wait a minute",
    ),
    (
        Status(9, f"There is insufficient reserved capacity.{EID}"),
        CREATE,
        CapacityError,
        "the reservation is too small",
        "leave out --reserved",
    ),
    (
        Status(8, f"The reservation has insufficient capacity: not enough chips.{EID}"),
        CREATE,
        CapacityError,
        "the reservation is too small",
        "leave out --reserved",
    ),
    (
        Status(5, "Resource 'projects/demo/locations/us-west4-a/reservations/r1' was not found"),
        CREATE,
        NotFoundError,
        "there is no such reservation",
        "gcloud alpha compute tpus reservations list --zone us-west4-a --project=demo",
    ),
    (
        Status(7, "Permission denied on 'locations/us-west4-a' (or it may not exist)."),
        CREATE,
        ClosedZoneError,
        "the zone is not open to this project",
        "v5litepod-16 is also in",
    ),
    (
        Status(7, "Location is closed to you.", "LOCATION_POLICY_VIOLATED"),
        LIST,
        ClosedZoneError,
        "the zone is not open to this project",
        "tpuctl catalog zones",
    ),
    (
        Status(7, "Cloud TPU API has not been used in project 1 before or it is disabled."),
        LIST,
        PermissionDeniedError,
        "the Cloud TPU API is not enabled",
        "gcloud services enable tpu.googleapis.com --project=demo",
    ),
    (
        Status(7, "Denied.", "SERVICE_DISABLED", {"service": "tpu.googleapis.com"}),
        LIST,
        PermissionDeniedError,
        "the Cloud TPU API is not enabled",
        "gcloud services enable tpu.googleapis.com --project=demo",
    ),
    (
        Status(7, "This API method requires billing to be enabled.", "BILLING_DISABLED"),
        CREATE,
        PermissionDeniedError,
        "the project has no active billing account",
        "run: tpuctl doctor",
    ),
    (
        Status(7, "Permission 'tpu.nodes.create' denied on 'projects/demo/locations/us-west4-a'"),
        CREATE,
        PermissionDeniedError,
        "create node 'n1': Permission",
        "--role=roles/tpu.admin",
    ),
    (
        Status(7, "Permission 'tpu.nodes.list' denied on resource"),
        LIST,
        PermissionDeniedError,
        "list nodes: Permission",
        "--role=roles/tpu.viewer",
    ),
    (
        Status(7, "The user lacks iam.serviceAccounts.actAs on a@demo.iam.gserviceaccount.com"),
        CREATE,
        PermissionDeniedError,
        "you may not act as the service account",
        "--role=roles/iam.serviceAccountUser",
    ),
    (
        Status(16, "Request had invalid authentication credentials."),
        LIST,
        CredentialsError,
        "list nodes: Request had",
        "gcloud auth application-default login",
    ),
    (
        Status(3, f"The requested zone 'us-west4-x' is not supported.{EID}"),
        LIST,
        UsageError,
        "no such zone",
        "did you mean us-west4-",
    ),
    (
        Status(
            3,
            "Accelerator configuration for the type v5litepod-16 could not be found among the "
            f"accelerator configurations of the zone.{EID}",
        ),
        CREATE,
        UsageError,
        "the zone does not have this type",
        "v5litepod-16 is also in",
    ),
    (
        Status(3, f"Flex-start is not offered for v5litepod-16 in us-west4-a.{EID}"),
        REQUEST,
        UsageError,
        "flex-start does not have this type here",
        "leave out --flex-start",
    ),
    (
        Status(3, f"update is not supported while in state PREEMPTED{EID}"),
        CREATE,
        PreconditionError,
        "its state does not allow it",
        "run: tpuctl node delete n1 --zone us-west4-a",
    ),
    (
        Status(9, f"'delete' of 'q1' is not supported while in state PROVISIONING.{EID}"),
        REQUEST,
        PreconditionError,
        "its state does not allow it",
        "run: tpuctl qr wait q1 --zone us-west4-a; or give it up: "
        "tpuctl node delete NODE --node-only --zone us-west4-a",
    ),
    (
        Status(9, "Stopping 'n1' is not supported: it has more than one worker."),
        CREATE,
        PreconditionError,
        "a slice of several workers can only be deleted",
        "run: tpuctl node delete n1 --zone us-west4-a",
    ),
    (
        Status(10, "There was a concurrent update of the node."),
        CREATE,
        PreconditionError,
        "another change of it is under way",
        "run this again",
    ),
    (
        Status(6, "Resource 'projects/demo/locations/z/nodes/n1' already exists"),
        CREATE,
        ConflictError,
        "create node 'n1': Resource",
        "look",
    ),
    (Status(14, "connection reset"), CREATE, TransientError, "create node 'n1': conn", "run it"),
    (Status(2, ""), CREATE, TransientError, "create node 'n1': code 2", "run it again"),
]


@pytest.mark.parametrize(
    ("status", "about", "kind", "cause", "hint"), ROWS, ids=lambda value: str(value)[:50]
)
def test_every_answer_has_a_cause_and_a_next_command(status, about, kind, cause, hint):
    error = error_for(status, about)
    assert type(error) is kind
    assert str(error).startswith(about.subject)
    assert cause in str(error)
    assert hint in error.hint
    assert "EID" not in str(error)


@pytest.mark.parametrize("name", ["stockout", "stop-spot", "stop-pods", "billing-closed", "force"])
def test_a_name_explains_nothing(name):
    about = replace(CREATE, name=name)
    gone = Status(5, f"Resource 'projects/stockout/locations/z/nodes/{name}' was not found")
    assert type(error_for(gone, about)) is NotFoundError
    busy = Status(9, f"'update' of '{name}' is not supported while in state CREATING")
    assert "its state does not allow it" in str(error_for(busy, about))


def test_a_reason_counts_more_than_words():
    status = Status(7, "The request to billing to be enabled", "LOCATION_POLICY_VIOLATED")
    assert "the zone is not open" in str(error_for(status, CREATE))


def test_the_id_for_google_s_support_is_kept_for_debug():
    error = error_for(Status(8, f"There is no more capacity.{EID}"), CREATE)
    assert error.__notes__ == [f"the API said: code 8: There is no more capacity.{EID}"]


def test_a_sentence_is_the_first_line_without_the_id():
    assert first_sentence(f"One.{EID}\nTwo.") == "One."


def test_the_other_zones_of_the_same_continent_come_first():
    error = error_for(Status(8, "no more capacity"), CREATE)
    zones = error.hint.split(" is also in ")[1].split(" and ")[0].split(", ")
    assert all(zone.startswith("us-") for zone in zones)
    assert "us-west4-a" not in zones


class Refused(grpc.RpcError):
    """A refusal as gRPC raises it, with google.rpc.Status in its trailing metadata."""

    def __init__(self, packed):
        self.packed = packed

    def code(self):
        return grpc.StatusCode.PERMISSION_DENIED

    def details(self):
        return "Denied."

    def trailing_metadata(self):
        return (("other", "x"), (DETAILS_KEY, self.packed))


def test_the_reason_is_read_from_the_trailing_metadata():
    info = error_details_pb2.ErrorInfo(reason="SERVICE_DISABLED", metadata={"service": "tpu"})
    status = status_pb2.Status(code=7)
    status.details.add().Pack(info)
    found = status_of(Refused(status.SerializeToString()))
    assert found == Status(7, "Denied.", "SERVICE_DISABLED", {"service": "tpu"})


def test_trailing_metadata_that_cannot_be_read_hides_nothing():
    assert status_of(Refused(b"\xff\xff")) == Status(7, "Denied.")
