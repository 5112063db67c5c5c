"""What goes wrong on purpose with Cloud Storage: a client's own tests, and faults of the owner."""

import http.client
import json
import os
from pathlib import Path

import clouds
import pytest

from client.storage.storage_fixtures import Service
from localsim.rules.scenario.storage_fault_texts import METHODS
from localsim.services.storage.routes import ROUTES
from localsim.services.storage.xml import dispatch as storage_xml

KIB = 1024
DATA = os.urandom(KIB) * 512
OBJECTS = "/storage/v1/b/local-bucket/o"
UPLOAD = f"/upload{OBJECTS}"
INSERT, GET = "storage.objects.insert", "storage.objects.get"


@pytest.fixture(scope="module")
def storm(tmp_path_factory):
    """A whole cloud, a thousand times as fast as life, with an object `whole` in its bucket."""
    for cloud in clouds.serve(tmp_path_factory.mktemp("storm"), "--time-scale", "1000"):
        service = Service(int(cloud.line["storage"].rpartition(":")[2]))
        service.control = cloud.control
        service.incoming = Path(cloud.line["state_dir"], "storage", "incoming")
        service.request("POST", f"{UPLOAD}?uploadType=media&name=whole", DATA)
        yield service


@pytest.fixture
def faulty(storm):
    yield storm
    storm.control.clear_faults()


def retry_test(service, **instructions) -> str:
    """Set up for methods named without `storage.objects.`; its id."""
    methods = {f"storage.objects.{name}": texts for name, texts in instructions.items()}
    reply = service.request("POST", "/retry_test", json.dumps({"instructions": methods}))
    return json.loads(reply.body)["id"]


def is_completed(service, test_id) -> bool:
    return json.loads(service.request("GET", f"/retry_test/{test_id}").body)["completed"]


def session(service, name) -> str:
    reply = service.request("POST", f"{UPLOAD}?uploadType=resumable&name={name}", "{}")
    return reply.headers["Location"].removeprefix(service.url)


def put(service, path, data, first=0, **headers):
    last = f"{first}-{len(DATA) - 1}" if data else "*"
    headers["Content_Range"] = f"bytes {last}/{len(DATA)}"
    return service.request("PUT", path, data, **headers)


def read(service, name="whole", **headers) -> bytes:
    return service.request("GET", f"{OBJECTS}/{name}?alt=media", **headers).body


def clock_s(service) -> float:
    return service.control.advance(0)


def test_an_upload_that_is_refused_late_goes_on_where_it_was(faulty):
    test_id = retry_test(faulty, insert=["return-503-after-256K"])
    path = session(faulty, "late")
    refused = put(faulty, path, DATA, x_retry_test_id=test_id)
    assert (refused.status, is_completed(faulty, test_id)) == (503, True)
    assert put(faulty, path, b"").headers["Range"] == "bytes=0-262143"
    assert put(faulty, path, DATA[256 * KIB :], 256 * KIB).status == 200
    assert read(faulty, "late") == DATA


def test_an_upload_that_does_not_resume_leaves_nothing(faulty):
    test_id = retry_test(faulty, insert=["return-503-after-256K"])
    path, before = f"{UPLOAD}?uploadType=media&name=gone", set(faulty.incoming.iterdir())
    assert faulty.request("POST", path, DATA, x_retry_test_id=test_id).status == 503
    assert faulty.request("GET", f"{OBJECTS}/gone").status == 404
    assert set(faulty.incoming.iterdir()) == before


def test_what_comes_too_short_for_a_fault_does_not_meet_it(faulty):
    test_id = retry_test(faulty, insert=["return-503-after-256K"])
    path = f"{UPLOAD}?uploadType=media&name=short"
    assert faulty.request("POST", path, b"x" * KIB, x_retry_test_id=test_id).status == 200
    assert not is_completed(faulty, test_id)


@pytest.mark.parametrize(
    ("instruction", "arrives"),
    [("return-broken-stream", 4), ("return-broken-stream-after-256K", 256 * KIB)],
)
def test_a_download_breaks_after_exactly_so_many_bytes(faulty, instruction, arrives):
    test_id = retry_test(faulty, get=[instruction])
    with pytest.raises(http.client.IncompleteRead) as error:
        read(faulty, x_retry_test_id=test_id)
    assert error.value.partial == DATA[:arrives]
    assert is_completed(faulty, test_id)
    assert read(faulty, x_retry_test_id=test_id) == DATA


def test_an_upload_can_break_too_and_a_session_keeps_what_came(faulty):
    test_id = retry_test(faulty, insert=["return-broken-stream-after-128K"])
    path = session(faulty, "broken")
    with pytest.raises((ConnectionError, http.client.HTTPException)):
        put(faulty, path, DATA, x_retry_test_id=test_id)
    assert put(faulty, path, b"").headers["Range"] == "bytes=0-131071"


@pytest.mark.parametrize(("verb", "method"), [("GET", "get"), ("PATCH", "patch")])
def test_metadata_breaks_as_well(faulty, verb, method):
    test_id = retry_test(faulty, **{method: ["return-broken-stream"]})
    with pytest.raises(http.client.IncompleteRead) as error:
        faulty.request(verb, f"{OBJECTS}/whole", "{}" * (verb == "PATCH"), x_retry_test_id=test_id)
    assert len(error.value.partial) == 4


def test_a_reset_is_a_reset(faulty):
    test_id = retry_test(faulty, get=["return-reset-connection"])
    with pytest.raises(ConnectionResetError):
        read(faulty, x_retry_test_id=test_id)
    assert is_completed(faulty, test_id)


def test_one_bit_of_a_download_is_wrong_and_its_checksum_right(faulty):
    test_id = retry_test(faulty, get=["return-corrupted-data"])
    path = f"{OBJECTS}/whole?alt=media"
    wrong = faulty.request("GET", path, x_retry_test_id=test_id)
    right = faulty.request("GET", path)
    bits = int.from_bytes(wrong.body) ^ int.from_bytes(right.body)
    assert (bits.bit_count(), len(wrong.body)) == (1, len(DATA))
    assert wrong.headers["X-Goog-Hash"] == right.headers["X-Goog-Hash"]


def test_the_reply_to_the_last_chunk_is_lost_and_the_object_is_there(faulty):
    test_id = retry_test(faulty, insert=["return-broken-stream-final-chunk-after-10B"])
    path = session(faulty, "last")
    first = faulty.request(
        *("PUT", path, DATA[: 256 * KIB]),
        x_retry_test_id=test_id,
        Content_Range=f"bytes 0-262143/{len(DATA)}",
    )
    assert (first.status, is_completed(faulty, test_id)) == (308, False)
    with pytest.raises(http.client.IncompleteRead) as error:
        put(faulty, path, DATA[256 * KIB :], 256 * KIB, x_retry_test_id=test_id)
    assert len(error.value.partial) == 10
    assert put(faulty, path, b"").status == 200
    assert read(faulty, "last") == DATA


@pytest.mark.parametrize("call", ["insert", "get"])
def test_a_stall_lasts_as_long_as_the_clock_says(faulty, call):
    test_id = retry_test(faulty, **{call: ["stall-for-300s-after-256K"]})
    before_s = clock_s(faulty)
    if call == "get":
        assert read(faulty, x_retry_test_id=test_id) == DATA
    else:
        put(faulty, session(faulty, "stalled"), DATA, x_retry_test_id=test_id)
        assert read(faulty, "stalled") == DATA
    assert clock_s(faulty) - before_s >= 300
    assert is_completed(faulty, test_id)


@pytest.mark.parametrize(
    ("fault", "at_least_s"),
    [(f"{GET}: latency 5m", 300), (f"{GET}: bandwidth 2KiB/s", 256)],
)
def test_time_passes_by_the_clock(faulty, fault, at_least_s):
    faulty.control.add_fault(fault)
    before_s = clock_s(faulty)
    assert read(faulty) == DATA
    assert clock_s(faulty) - before_s >= at_least_s
    assert faulty.control.faults() == [{"fault": fault, "kind": "storage", "met": 1}]


def test_the_owner_can_ask_for_patience(faulty):
    faulty.control.add_fault("storage.objects.*: return-429 retry-after 7s x2 after call 1")
    replies = [faulty.request("GET", OBJECTS) for _ in range(4)]
    assert [reply.status for reply in replies] == [200, 429, 429, 200]
    assert replies[1].headers["Retry-After"] == "7"
    assert json.loads(replies[1].body)["error"]["errors"][0]["reason"] == "rateLimitExceeded"
    assert [each["met"] for each in faulty.control.faults()] == [2]


def test_a_full_disk_takes_no_upload_and_keeps_nothing_of_it(faulty):
    faulty.control.add_fault(f"{INSERT}: disk full after 256KiB x1")
    path, before = f"{UPLOAD}?uploadType=media&name=full", set(faulty.incoming.iterdir())
    refused = faulty.request("POST", path, DATA)
    assert refused.status == 507
    assert json.loads(refused.body)["error"]["message"] == "localsim cannot write: ENOSPC"
    assert set(faulty.incoming.iterdir()) == before
    assert faulty.request("POST", path, DATA).status == 200


def test_a_full_disk_takes_no_change_either(faulty):
    faulty.control.add_fault("storage.*: disk full x1")
    assert faulty.request("GET", f"{OBJECTS}/whole").status == 200
    patch = (f"{OBJECTS}/whole", json.dumps({"metadata": {"a": "b"}}))
    assert faulty.request("PATCH", *patch, Content_Type="application/json").status == 507
    assert "metadata" not in json.loads(faulty.request("GET", f"{OBJECTS}/whole").body)


def test_the_xml_api_fails_like_the_other(faulty):
    test_id = retry_test(faulty, insert=["return-503-after-256K"], get=["return-broken-stream"])
    refused = faulty.request("PUT", "/local-bucket/xml", DATA, x_retry_test_id=test_id)
    assert (refused.status, b"<Error>" in refused.body) == (503, True)
    with pytest.raises(http.client.IncompleteRead) as error:
        faulty.request("GET", "/local-bucket/whole", x_retry_test_id=test_id)
    assert (error.value.partial, is_completed(faulty, test_id)) == (DATA[:4], True)


def test_every_method_of_buckets_and_objects_can_fail():
    kinds = ("storage.buckets.", "storage.objects.", "storage.multipartUploads.")
    served = {route.name for route in ROUTES if route.handler.__name__ != "refuse"}
    served |= {route.name for route in storage_xml._ROUTES.values()}
    assert {name for name in served if name.startswith(kinds)} <= set(METHODS) <= served


def test_a_client_meets_only_its_own_test_method_by_method(faulty):
    test_id = retry_test(faulty, get=["return-503", "return-400"], list=["return-408"])
    other = retry_test(faulty, get=["return-401"])

    def status(path, **headers):
        return faulty.request("GET", path, **headers).status

    whole = f"{OBJECTS}/whole"
    assert [status(whole), status(whole, x_retry_test_id=other)] == [200, 401]
    mine = [status(path, x_retry_test_id=test_id) for path in (whole, OBJECTS, whole, whole)]
    assert mine == [503, 408, 400, 200]
    assert is_completed(faulty, test_id)


def test_a_retry_test_as_the_test_bench_shows_it(faulty):
    test_id = retry_test(faulty, get=["return-503"], list=[])
    shown = json.loads(faulty.request("GET", f"/retry_test/{test_id}").body)
    assert shown == {
        "id": test_id,
        "instructions": {GET: ["return-503"], "storage.objects.list": []},
        "transport": "HTTP",
        "completed": False,
    }
    assert shown in json.loads(faulty.request("GET", "/retry_tests").body)["retry_test"]
    gone = faulty.request("DELETE", f"/retry_test/{test_id}")
    assert (gone.status, gone.body.decode()) == (200, f"Deleted {test_id}")
    assert faulty.request("GET", f"/retry_test/{test_id}").status == 404
    assert faulty.request("DELETE", f"/retry_test/{test_id}").status == 404
    assert faulty.request("GET", OBJECTS, x_retry_test_id=test_id).status == 404


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ("{", "The retry test must be JSON."),
        ("[]", "instructions is not defined"),
        ('{"instructions": {}}', "instructions is not defined"),
        ({"x": ["return-503"]}, "The requested method 'x' is not served, or takes no faults."),
        ({GET: "return-503"}, f"The instructions for {GET} must be a list."),
        ({GET: ["return-303"]}, "The fault injection request 'return-303' is not known over HTTP."),
        (
            {GET: ["redirect-send-token-T"]},
            "The fault injection request 'redirect-send-token-T' is not known over HTTP.",
        ),
        ({GET: [503]}, "The fault injection request 503 is not known over HTTP."),
        ({GET: ["return-503"] * 1001}, "A retry test has at most 1000 instructions."),
        (
            '{"instructions": {"storage.objects.get": []}, "transport": "GRPC"}',
            "The requested transport 'GRPC' is not served; HTTP is.",
        ),
    ],
)
def test_what_is_no_retry_test(faulty, document, message):
    body = document if isinstance(document, str) else json.dumps({"instructions": document})
    refused = faulty.request("POST", "/retry_test", body)
    assert (refused.status, json.loads(refused.body)["error"]["message"]) == (400, message)


def test_pages_set_up_no_retry_test(faulty):
    body = json.dumps({"instructions": {GET: ["return-503"]}})
    refused = faulty.request("POST", "/retry_test", body, Origin="https://example.com")
    assert refused.status == 403
