"""What holds of Google and of localsim alike: the same tests for both.

localsim is asked twice: in the clear, and with TLS and a service account's key, as Google is.

    TPUCTL_LIVE=PROJECT/ZONE/BUCKET pytest tests/client/tpu/test_tpu_live.py

asks Google; all but the last test read, or are refused, and cost nothing.
"""

import uuid
from collections.abc import Iterator

import google.auth
import pytest
from clouds import grpc_roots
from google.api_core.exceptions import GoogleAPICallError, NotFound, TooManyRequests
from google.oauth2 import service_account

from client.google.target import (
    LABELS,
    LIVE,
    LONGEST_S,
    MOST_USD,
    WHO_ASKS,
    Place,
    Target,
    live_place,
)
from client.workers.doors import NAMES, Door, Endpoint, doors
from tpuctl import catalog

pytest_plugins = ("client.tpu.tpu_fixtures", "client.google.google_server")

EID = r"\[EID: 0x[0-9a-f]+\]"
SCOPES = ("https://www.googleapis.com/auth/cloud-platform",)
NOBODY = f"no-such-{uuid.uuid4().hex[:12]}"


@pytest.fixture(scope="session")
def live_doors() -> Iterator[dict[str, Door]]:
    """Every client, connected to Google."""
    with pytest.MonkeyPatch.context() as environment:
        for name, value in WHO_ASKS.items():
            environment.setenv(name, value)
        credentials, _ = google.auth.default(scopes=SCOPES)
    with doors(Endpoint("tpu.googleapis.com", "tpu.googleapis.com", credentials)) as found:
        yield found


@pytest.fixture(scope="session")
def tls_doors(google_cloud) -> Iterator[dict[str, Door]]:
    """Every client, connected to localsim as to Google: TLS, and the key of a service account."""
    line = google_cloud.line["google"]
    credentials = service_account.Credentials.from_service_account_file(
        line["keys"]["admin"], scopes=SCOPES
    )
    address = Endpoint(line["tpu"], line["tpu_rest"].removeprefix("https://"), credentials)
    with doors(address) as found:
        yield found


@pytest.fixture(params=["live"] if LIVE else ["plain", "tls"])
def place(request, monkeypatch) -> Place:
    """The cloud that is asked for: Google, or localsim in the clear and as if it were Google."""
    if request.param == "live":
        found = request.getfixturevalue("live_doors")
        return Place(*live_place(), found, lambda: None)
    if request.param == "plain":
        service = request.getfixturevalue("service")
        found = request.getfixturevalue("open_doors")
        return Place("demo", "us-west4-a", found, lambda: service.advance(60))
    cloud, found = (request.getfixturevalue(name) for name in ("google_cloud", "tls_doors"))
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(grpc_roots()))
    cloud.control.reset()
    line = cloud.line
    return Place(line["project"], line["zone"], found, lambda: cloud.control.advance(60))


@pytest.fixture(params=NAMES)
def target(request, place) -> Target:
    """Each client of that cloud in turn."""
    return Target(place, place.doors[request.param])


@pytest.mark.parametrize(
    ("method", "items"),
    [
        ("ListNodes", "nodes"),
        ("ListQueuedResources", "queued_resources"),
        ("ListAcceleratorTypes", "accelerator_types"),
        ("ListRuntimeVersions", "runtime_versions"),
    ],
)
def test_lists_hold_what_is_in_the_zone(target, method, items):
    for each in getattr(target.door.call(method, {"parent": target.parent}), items):
        assert target.place.zone in each.name


def test_what_a_zone_offers_can_be_read_one_by_one(target):
    listed = target.door.call("ListAcceleratorTypes", {"parent": target.parent})
    one = listed.accelerator_types[0]
    assert target.door.call("GetAcceleratorType", {"name": one.name}).type_ == one.type_
    listed = target.door.call("ListRuntimeVersions", {"parent": target.parent})
    version = listed.runtime_versions[0]
    assert target.door.call("GetRuntimeVersion", {"name": version.name}).version == version.version


def test_the_zone_is_a_location_of_the_project(target):
    name = f"projects/{target.place.project}"
    listed = target.door.call("ListLocations", {"name": name})
    assert target.place.zone in [each.location_id for each in listed.locations]
    assert target.door.call("GetLocation", {"name": target.parent}).location_id == target.place.zone


@pytest.mark.parametrize(
    ("method", "collection"),
    [
        ("GetNode", "nodes"),
        ("DeleteNode", "nodes"),
        ("StopNode", "nodes"),
        ("StartNode", "nodes"),
        ("GetQueuedResource", "queuedResources"),
        ("DeleteQueuedResource", "queuedResources"),
    ],
)
def test_what_there_is_not_is_not_found(target, method, collection):
    with pytest.raises(NotFound):
        target.door.call(method, {"name": f"{target.parent}/{collection}/{NOBODY}"})


@pytest.mark.parametrize(
    ("zone", "kind"), [("", "v5litepod-17"), ("mars-1a", "v5litepod-4")], ids=["type", "zone"]
)
def test_what_there_cannot_be_is_an_invalid_argument_with_an_error_id(target, zone, kind):
    parent = f"projects/{target.place.project}/locations/{zone or target.place.zone}"
    node = {"accelerator_type": kind, "runtime_version": "v2-alpha-tpuv5-lite"}
    with pytest.raises(GoogleAPICallError, match=EID) as refused:
        target.door.call("CreateNode", {"parent": parent, "node_id": NOBODY, "node": node})
    assert refused.value.code == 400


def test_the_smallest_spot_node_is_made_listed_and_deleted(target):
    if LIVE and target.door.name != "v2-grpc":
        pytest.skip("one client is enough for what costs money")
    kind, usd = target.smallest_spot_type()
    assert usd <= MOST_USD, f"an hour of {kind} costs {usd} USD: TPUCTL_LIVE_MAX_USD is {MOST_USD}"
    name = f"{target.parent}/nodes/contract-{uuid.uuid4().hex[:12]}"
    node = {
        "accelerator_type": kind,
        "runtime_version": catalog.default_runtime_version(kind),
        "scheduling_config": {"spot": True},
        "labels": LABELS,
    }
    try:
        made = _made(target, name, node)
        assert (made.state.name, dict(made.labels)) == ("READY", LABELS)
        assert target.door.call("GetNode", {"name": name}).id == made.id
        listed = target.door.call("ListNodes", {"parent": target.parent}).nodes
        assert name in [each.name for each in listed]
    finally:
        _delete(target, name)
    with pytest.raises(NotFound):
        target.door.call("GetNode", {"name": name})


def _made(target: Target, name: str, node: dict) -> object:
    asked = {"parent": target.parent, "node_id": name.rpartition("/")[2], "node": node}
    try:
        operation = target.door.call("CreateNode", asked)
        target.place.let_time_pass()
        return target.door.result(operation, timeout=LONGEST_S)
    except TooManyRequests as error:
        return pytest.skip(f"{target.place.zone} has none left: {error.message}")


def _delete(target: Target, name: str) -> None:
    try:
        operation = target.door.call("DeleteNode", {"name": name})
    except NotFound:
        return
    target.place.let_time_pass()
    target.door.result(operation, timeout=LONGEST_S)
