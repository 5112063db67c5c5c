"""Flex-start goes as JSON, with the retries and the errors of every other call."""

from random import Random
from types import MappingProxyType, SimpleNamespace

import pytest

from tpuctl.api.connect import tpu_api
from tpuctl.api.tpu import encode
from tpuctl.api.tpu.rest import Reply, RestApi
from tpuctl.api.tpu.rpc_errors import translate_errors
from tpuctl.api.tpu.tpu_rest import TpuRest
from tpuctl.api.tpu.versions import V2ALPHA1
from tpuctl.config import ANONYMOUS, Context
from tpuctl.errors import CapacityError, OutcomeUnknownError, PermissionDeniedError, UsageError
from tpuctl.models.node import NodeSpec, Provisioning
from tpuctl.models.queued_resource import QueuedResourceSpec

PARENT = "projects/demo/locations/us-west4-a"
SPEC = QueuedResourceSpec(
    "q1",
    NodeSpec("q1", "us-west4-a", "v5litepod-16", "v", provisioning=Provisioning.FLEX_START),
    max_run_duration_s=5400.0,
)


class Wire:
    """Answers what it was told to, and remembers what it was asked."""

    def __init__(self, *answers):
        self.answers = list(answers)
        self.asked = []

    def request(self, method, path, document=None):
        self.asked.append((method, path, document))
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return Reply(*answer)


def create(wire):
    message = V2ALPHA1.message(
        "CreateQueuedResourceRequest",
        {
            "parent": PARENT,
            "queued_resource_id": "q1",
            "request_id": "r",
            "queued_resource": encode.request_fields(SPEC, PARENT, V2ALPHA1, 0.0),
        },
    )
    rest = TpuRest(wire, sleep=lambda _: None, random=Random(1))
    with translate_errors("create queued resource 'q1'", changes=True):
        return rest.create_queued_resource(message, SPEC)


def error(http_status, status, message, *details):
    body = {"code": http_status, "status": status, "message": message, "details": list(details)}
    return http_status, {"error": body}


def test_the_request_says_what_no_typed_message_can():
    wire = Wire((200, {"name": "projects/demo/locations/us-west4-a/operations/o1"}))
    operation = create(wire)
    assert (operation.name.rpartition("/")[2], operation.done) == ("o1", False)
    ((verb, path, body),) = wire.asked
    assert (verb, path) == (
        "POST",
        f"/v2alpha1/{PARENT}/queuedResources?queuedResourceId=q1&requestId=r",
    )
    assert body["provisioningModel"] == "FLEX_START"
    assert body["runDuration"] == {"maxRunDuration": "5400s"}
    assert body["tpu"]["nodeSpec"][0]["nodeId"] == "q1"


def test_an_answer_with_fields_that_no_class_has_is_understood():
    response = {"@type": "type.googleapis.com/google.cloud.tpu.v2alpha1.New", "runDuration": {}}
    assert create(Wire((200, {"name": "o", "done": True, "response": response}))).done


def test_what_is_transient_is_repeated():
    busy = error(503, "UNAVAILABLE", "try again")
    wire = Wire(busy, ConnectionError("reset"), (200, {"name": "o"}))
    assert create(wire).name == "o"
    assert len(wire.asked) == 3


@pytest.mark.parametrize(
    ("answer", "kind", "text"),
    [
        (error(400, "INVALID_ARGUMENT", "no such thing"), UsageError, "no such thing"),
        (error(429, "RESOURCE_EXHAUSTED", "no more capacity"), CapacityError, "no capacity"),
        (error(403, "", "no"), PermissionDeniedError, "no"),
        ((500, {}), OutcomeUnknownError, "HTTP status 500"),
    ],
)
def test_a_refusal_is_the_same_error_as_over_grpc(answer, kind, text):
    with pytest.raises(kind, match=text):
        create(Wire(answer))


def test_the_reason_of_a_refusal_is_read():
    info = {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "SERVICE_DISABLED"}
    with pytest.raises(PermissionDeniedError, match="is not enabled"):
        create(Wire(error(403, "PERMISSION_DENIED", "no", info)))


def test_a_lost_answer_leaves_the_outcome_unknown():
    with pytest.raises(OutcomeUnknownError):
        create(Wire(*[ConnectionError("gone")] * 5))


class Page(SimpleNamespace):
    """What requests gives for a page that is not JSON."""

    headers = MappingProxyType({})

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def json(self):
        raise ValueError


def test_a_page_that_is_no_answer_is_none():
    page = Page(ok=True, status_code=200)
    session = SimpleNamespace(request=lambda *_, **__: page)
    api = RestApi("https://tpu.example", session)
    with pytest.raises(ConnectionError, match="not in JSON"):
        api.request("GET", "/v2/x")
    page.ok, page.status_code = False, 502
    assert api.request("GET", "/v2/x") == Reply(502, {})


@pytest.mark.parametrize(
    ("endpoints", "has_rest"),
    [
        ({"tpu_endpoint": "127.0.0.1:1"}, False),
        ({"tpu_rest_endpoint": "http://127.0.0.1:1"}, False),
        ({"tpu_endpoint": "127.0.0.1:1", "tpu_rest_endpoint": "http://127.0.0.1:2"}, True),
    ],
)
def test_one_cloud_s_resources_are_never_asked_of_another_s_endpoint(endpoints, has_rest):
    context = Context("c", "p", "us-west4-a", "b", credentials=ANONYMOUS, **endpoints)
    api = tpu_api(context)
    assert (api.rest is not None) == has_rest
    api.close()


def test_flex_start_without_a_rest_endpoint_is_refused_before_any_call():
    api = tpu_api(Context("c", "p", "us-west4-a", "b", "127.0.0.1:1", credentials=ANONYMOUS))
    with pytest.raises(UsageError, match="no REST endpoint"):
        api.create_queued_resource(SPEC, request_id="r")
    api.close()


def test_a_node_from_one_reservation():
    spec = NodeSpec("n1", "us-west4-a", "v5litepod-16", "v", reservation="r1")
    node = encode.node_fields(spec)
    fields = {"parent": PARENT, "node_id": "n1", "request_id": "r", "node": node}
    wire = Wire(ConnectionError("reset"), (200, {"name": "o"}))
    rest = TpuRest(wire, sleep=lambda _: None)
    assert rest.create_node(V2ALPHA1.message("CreateNodeRequest", fields), spec).name == "o"
    (verb, path, body), again = wire.asked
    assert again == (verb, path, body)
    assert (verb, path) == ("POST", f"/v2alpha1/{PARENT}/nodes?nodeId=n1&requestId=r")
    assert body["schedulingConfig"] == {
        "reserved": True,
        "reservationName": f"{PARENT}/reservations/r1",
    }


def test_what_describe_reads_of_flex_start():
    name = f"{PARENT}/queuedResources/q1"
    document = {
        "name": name,
        "provisioningModel": "FLEX_START",
        "runDuration": {"maxRunDuration": "5400s"},
        "state": {"state": "ACTIVE", "somethingNew": {}},
        "tpu": {"nodeSpec": [{"nodeId": "n", "node": {"acceleratorType": "v5litepod-16"}}]},
    }
    wire = Wire((200, document))
    found = TpuRest(wire, sleep=lambda _: None).get_queued_resource(name)
    assert wire.asked == [("GET", f"/v2alpha1/{name}", None)]
    assert (found.state, found.provisioning) == ("ACTIVE", Provisioning.FLEX_START)
    assert (found.max_run_duration_s, found.node_names) == (5400.0, ("n",))
