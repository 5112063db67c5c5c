"""Whatever arrives, on every method of both versions: an answer, or a refusal of Google's shape."""

import http.client
import json
import re
from urllib.parse import quote, urlencode

import grpc
import pytest
from google.protobuf import json_format
from google.rpc import status_pb2
from hypothesis import HealthCheck, given, reject, settings
from hypothesis import strategies as st

from client.tpu.tpu_service import ZONE
from client.tpu.wire.random_messages import JSON, MOST_DEEP, TEXTS, fill, messages
from localsim.services.net.wire_errors import HTTP_STATUS, STATUS_DETAILS
from localsim.services.tpu.tpu_methods import all_methods, rest_methods

pytest_plugins = ("client.tpu.tpu_fixtures",)

GRPC_METHODS = all_methods()
REST_METHODS = [method for version in ("v2", "v2alpha1") for method in rest_methods(version)]
IDS = {
    "nodes": "a",
    "queuedResources": "q",
    "acceleratorTypes": "v5litepod-16",
    "runtimeVersions": "v2-alpha-tpuv5-lite",
}
SIZE = {"accelerator_type": "v5litepod-16", "runtime_version": "v2-alpha-tpuv5-lite"}
RIGHT = {
    "CreateNode": {f"node.{name}": text for name, text in SIZE.items()},
    "CreateQueuedResource": {
        "queued_resource.tpu.node_spec.parent": ZONE,
        **{f"queued_resource.tpu.node_spec.node.{name}": text for name, text in SIZE.items()},
    },
    "DeleteQueuedResource": {"force": True},
}
"""What a request needs beside the name it is about."""

NEW_IDS = {
    "CreateNode": ("node_id",),
    "CreateQueuedResource": ("queued_resource_id", "queued_resource.tpu.node_spec.node_id"),
}
UPDATABLE = st.sampled_from(("description", "labels", "metadata", "tags", "data_disks", "name"))

QUERIES = st.one_of(
    st.dictionaries(TEXTS, TEXTS, max_size=2),
    st.fixed_dictionaries({"fields": st.text("a*,/()", max_size=12)}),
    st.fixed_dictionaries({"alt": TEXTS, "prettyPrint": TEXTS}),
)
NEVER = ("INTERNAL", "UNKNOWN", "DATA_LOSS")

FEW = settings(max_examples=2 * settings().max_examples, suppress_health_check=list(HealthCheck))
"""40, and 200 in CI, where the profile is another one."""
MANY = settings(max_examples=20_000, deadline=None, suppress_health_check=list(HealthCheck))
BOTH = pytest.mark.parametrize(
    "how",
    [
        pytest.param(FEW, id="few"),
        pytest.param(MANY, id="many", marks=[pytest.mark.soak, pytest.mark.timeout(3600)]),
    ],
)


@pytest.fixture
def busy(service):
    """A cloud with a node, a request and an operation in it, and whatever the fuzz adds."""
    node = {"acceleratorType": "v5litepod-16", "runtimeVersion": "v2-alpha-tpuv5-lite"}
    body = {"tpu": {"nodeSpec": [{"parent": ZONE, "nodeId": "q-0", "node": node}]}}
    assert service.send("POST", f"/v2/{ZONE}/nodes?nodeId=a", node)[0] == 200
    path = f"/v2/{ZONE}/queuedResources?queuedResourceId=q"
    assert service.send("POST", path, body)[0] == 200
    service.advance(5)
    return service


@BOTH
def test_any_message_over_grpc(busy, how):
    @how
    @given(st.data())
    def check(data):
        method = data.draw(st.sampled_from(GRPC_METHODS))
        message = data.draw(st.one_of(messages(method.request), nearly_right(method)))
        call_grpc(busy, method, message.SerializeToString())
        busy.advance(data.draw(st.sampled_from((0, 0, 1, 100))))

    check()
    assert_alive(busy)


@BOTH
def test_any_bytes_over_grpc(busy, how):
    @how
    @given(st.sampled_from(GRPC_METHODS), st.binary(max_size=200))
    def check(method, body):
        call_grpc(busy, method, body)

    check()
    assert_alive(busy)


@BOTH
def test_any_message_over_rest(busy, how):
    @how
    @given(st.data())
    def check(data):
        method = data.draw(st.sampled_from(REST_METHODS))
        try:
            drawn = data.draw(st.one_of(messages(method.request), nearly_right(method)))
            document = json_format.MessageToDict(drawn)
        except json_format.SerializeToJsonError:  # a moment or an enum that JSON cannot say
            reject()
        verb, path, name, body = binding(method)
        call_rest(
            busy,
            verb,
            path.format(data.draw(st.one_of(st.sampled_from(("a", "q")), TEXTS))),
            query_of(document, body),
            document.get(name),
        )
        busy.advance(data.draw(st.sampled_from((0, 0, 1, 100))))

    check()
    assert_alive(busy)


@BOTH
def test_any_json_over_rest(busy, how):
    @how
    @given(st.sampled_from(REST_METHODS), JSON, QUERIES)
    def check(method, document, query):
        verb, path, *_ = binding(method)
        call_rest(busy, verb, path.format("a"), query, document)

    check()
    assert_alive(busy)


@st.composite
def nearly_right(draw, method):
    """A request that would do, with one or two of its fields changed."""
    message = method.request()
    name_it(message, method.http)
    for path, value in RIGHT.get(method.name, {}).items():
        holder, field = reach(message, path)
        setattr(holder, field, value)
    for path in NEW_IDS.get(method.name, ()):
        holder, field = reach(message, path)
        setattr(holder, field, f"n{draw(st.integers(0, 10**6))}")
    if method.name == "UpdateNode":
        message.update_mask.paths.extend(draw(st.lists(UPDATABLE, max_size=2)))
    for _ in range(draw(st.integers(0, 2))):
        change(draw, message)
    return message


def name_it(message, http):
    """Name what there is."""
    path, template = re.findall(r"\{([\w.]+)=([^}]*)\}", http)[0]
    kind = template.removesuffix("/*").rpartition("/")[2]
    holder, field = reach(message, path)
    name = template.replace("projects/*/locations/*", ZONE).replace("*", IDS.get(kind, "demo"))
    setattr(holder, field, name)


def reach(message, path):
    """The message that holds the last field of a path; a repeated one on the way gets an item."""
    *parents, field = path.split(".")
    for parent in parents:
        inner = getattr(message, parent)
        message = inner if hasattr(inner, "DESCRIPTOR") else (list(inner) or [inner.add()])[0]
    return message, field


def change(draw, message):
    """One field again, here or further down."""
    field = draw(st.sampled_from(tuple(message.DESCRIPTOR.fields)))
    while field.message_type is not None and not field.is_repeated and draw(st.booleans()):
        message = getattr(message, field.name)
        if not message.DESCRIPTOR.fields:
            return
        field = draw(st.sampled_from(tuple(message.DESCRIPTOR.fields)))
    fill(draw, message, field, MOST_DEEP - 2)


def call_grpc(service, method, body):
    call = service.channel.unary_unary(
        method.full_name, response_deserializer=method.response.FromString
    )
    try:
        call(body, timeout=20)
    except grpc.RpcError as error:
        assert error.code().name not in NEVER, (method.full_name, error.details())
        assert error.details()
        for key, value in error.trailing_metadata():
            if key == STATUS_DETAILS:
                assert status_pb2.Status.FromString(value).message == error.details()


def call_rest(service, verb, path, query, document):
    connection = http.client.HTTPConnection("127.0.0.1", service.rest_port, timeout=20)
    try:
        body = None if document is None else json.dumps(document)
        headers = {"Content-Type": "application/json"}
        connection.request(verb, f"{path}?{urlencode(query, errors='replace')}", body, headers)
        reply = connection.getresponse()
        text = reply.read()
    finally:
        connection.close()
    found = json.loads(text)
    if reply.status != 200:
        error = found["error"]
        assert error["status"] not in NEVER, (verb, path, error)
        assert error["message"]
        assert error["code"] == reply.status
        assert reply.status in HTTP_STATUS.values()


def binding(method):
    """Verb, path with a hole for the last id, and how the body is called in JSON and in proto."""
    verb, template, *body = method.http.split()
    path = re.sub(r"\{[\w.]+=([^}]*)\}", r"\1", template)
    *start, end = path.replace("projects/*/locations/*", ZONE).split("*")
    version = "v2alpha1" if "v2alpha1" in method.version else "v2"
    filled = f"/{version}/{'*'.join(start)}" + ("{}" + end if start else end)
    name = re.sub(r"_(\w)", lambda match: match[1].upper(), "".join(body))
    return verb, Filled(filled), name, body


class Filled(str):
    """A path whose hole takes any text."""

    def format(self, text):
        return self.replace("{}", quote(text, safe="", errors="replace"))


def query_of(document, body):
    return (
        {}
        if body == ["*"]
        else {key: text for key, text in document.items() if isinstance(text, str)}
    )


def assert_alive(service):
    assert service.send("GET", f"/v2/{ZONE}/nodes")[0] == 200
    call_grpc(service, GRPC_METHODS[0], b"")
