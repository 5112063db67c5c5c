"""IP filters through Google's own client, and enforced on this machine's loopback addresses."""

import http.client
import json
import sys

import pytest
from google.cloud.storage.ip_filter import IPFilter, PublicNetworkSource, VpcNetworkSource

pytest_plugins = ("client.storage.storage_fixtures",)

OTHER = "127.0.0.2"
"""Another address of this machine."""


def filter_of(*ranges, mode="Enabled"):
    made = IPFilter()
    made.mode = mode
    made.allow_all_service_agent_access = True
    made.public_network_source = PublicNetworkSource(allowed_ip_cidr_ranges=list(ranges))
    return made


needs_two_addresses = pytest.mark.skipif(
    sys.platform != "linux", reason="only Linux has all of 127.0.0.0/8"
)


@pytest.fixture
def filtered(own_bucket):
    """A bucket that admits one address, with an object."""
    own_bucket.blob("x").upload_from_string(b"abc")
    own_bucket.reload()
    own_bucket.ip_filter = filter_of("127.0.0.1/32")
    own_bucket.patch()
    yield own_bucket
    own_bucket.ip_filter = None
    own_bucket.patch()


@pytest.fixture
def ask(box):
    """The status and the body of a request from an address."""

    def send(method, path, body=b"", source=OTHER):
        port = box.service.port
        connection = http.client.HTTPConnection("127.0.0.1", port, source_address=(source, 0))
        try:
            connection.request(method, path, body, {"Content-Type": "application/json"})
            response = connection.getresponse()
            return response.status, response.read()
        finally:
            connection.close()

    return send


def test_a_filter_is_kept_and_listed_without_its_ranges(own_bucket):
    own_bucket.reload()
    made = filter_of("203.0.113.10/32", mode="Disabled")
    network = "projects/p/global/networks/default"
    made.vpc_network_sources = [VpcNetworkSource(network, ["10.0.0.0/8"])]
    own_bucket.ip_filter = made
    own_bucket.patch()
    own_bucket.reload()
    kept = own_bucket.ip_filter
    assert (kept.mode, kept.allow_all_service_agent_access) == ("Disabled", True)
    assert kept.public_network_source.allowed_ip_cidr_ranges == ["203.0.113.10/32"]
    assert [source.network for source in kept.vpc_network_sources] == [network]
    (listed,) = own_bucket.client.list_buckets(prefix=f"{own_bucket.name}")
    assert listed.ip_filter.mode == "Disabled"
    assert listed.ip_filter.public_network_source is None


@needs_two_addresses
def test_an_address_outside_of_the_ranges_is_refused(filtered, box, ask):
    for method, path in (
        ("GET", f"{box.objects}/x?alt=media"),
        ("GET", box.objects),
        ("POST", f"{box.uploads}?uploadType=media&name=y"),
        ("DELETE", f"{box.objects}/x"),
        ("GET", f"/{box.name}/x"),
    ):
        status, body = ask(method, path)
        assert status == 403, (method, path)
        assert b"There is an IP filtering condition" in body or b"AccessDenied" in body
    assert ask("GET", f"{box.objects}/x?alt=media", source="127.0.0.1") == (200, b"abc")
    assert filtered.blob("x").download_as_bytes() == b"abc"


@needs_two_addresses
def test_a_copy_needs_to_be_let_in_by_both_buckets(filtered, box, ask):
    other = f"{box.name}-other"
    filtered.client.create_bucket(other)
    copied = ask("POST", f"{box.objects}/x/copyTo/b/{other}/o/x")
    assert copied[0] == 403
    assert ask("POST", f"/storage/v1/b/{other}/o/x/copyTo/b/{box.name}/o/y")[0] == 403


@needs_two_addresses
def test_the_owner_is_never_locked_out(filtered, box, ask):
    nowhere = {"ipFilter": {"publicNetworkSource": {"allowedIpCidrRanges": ["203.0.113.1/32"]}}}
    assert ask("PATCH", box.bucket_path, json.dumps(nowhere).encode())[0] == 200
    assert ask("GET", box.objects, source="127.0.0.1")[0] == 403
    status, shown = ask("GET", box.bucket_path)
    assert (status, json.loads(shown)["ipFilter"]["mode"]) == (200, "Enabled")
    off = json.dumps({"ipFilter": {"mode": "Disabled"}}).encode()
    assert ask("PATCH", box.bucket_path, off)[0] == 200
    assert ask("GET", box.objects)[0] == 200


def test_a_filter_outlives_the_server(killable):
    bucket = killable.start().client().create_bucket("box")
    bucket.ip_filter = filter_of("203.0.113.1/32")
    bucket.patch()
    killable.kill()
    service = killable.start()
    assert service.request("GET", "/storage/v1/b/box/o").reason == "forbidden"
    assert service.request("DELETE", "/storage/v1/b/box").status == 204
    assert service.request("GET", "/storage/v1/b/box/o").reason == "notFound"
