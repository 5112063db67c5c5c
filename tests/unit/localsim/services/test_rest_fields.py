"""Partial responses: the grammar of `fields`, and what it leaves."""

import pytest
from google.longrunning import operations_pb2

from localsim.services.net.wire_errors import MalformedRequestError
from localsim.services.rest.rest_fields import apply_mask, parse_mask
from localsim.services.tpu.rest_messages import REST_MESSAGES

LIST = REST_MESSAGES["v2"]["ListNodesResponse"].DESCRIPTOR
A = {"name": "a", "state": "READY", "labels": {"k": "1", "l": "2"}, "schedulingConfig": {}}
B = {"name": "b", "networkEndpoints": [{"ipAddress": "1", "port": 2}, {"ipAddress": "3"}]}
PAGE = {"nodes": [A, B], "nextPageToken": "t"}


@pytest.mark.parametrize(
    ("fields", "left"),
    [
        ("nextPageToken", {"nextPageToken": "t"}),
        ("next_page_token", {"nextPageToken": "t"}),
        ("*", PAGE),
        ("nodes", {"nodes": [A, B]}),
        ("nodes/name", {"nodes": [{"name": "a"}, {"name": "b"}]}),
        ("nodes(name,state)", {"nodes": [{"name": "a", "state": "READY"}, {"name": "b"}]}),
        ("nodes(name),nodes(state)", {"nodes": [{"name": "a", "state": "READY"}, {"name": "b"}]}),
        ("nodes/name,nodes", {"nodes": [A, B]}),
        ("nodes/labels/k", {"nodes": [{"labels": {"k": "1"}}, {}]}),
        ("nodes/networkEndpoints/port", {"nodes": [{}, {"networkEndpoints": [{"port": 2}, {}]}]}),
        (
            "nodes(networkEndpoints(ipAddress))",
            {"nodes": [{}, {"networkEndpoints": [{"ipAddress": "1"}, {"ipAddress": "3"}]}]},
        ),
        ("*/name", {"nodes": [{"name": "a"}, {"name": "b"}]}),
        (
            "nodes/*/port",
            {
                "nodes": [
                    {"labels": {}, "schedulingConfig": {}},
                    {"networkEndpoints": [{"port": 2}, {}]},
                ]
            },
        ),
        (
            " nodes / name , nextPageToken ",
            {"nodes": [{"name": "a"}, {"name": "b"}], "nextPageToken": "t"},
        ),
    ],
)
def test_what_a_mask_leaves(fields, left):
    assert apply_mask(PAGE, parse_mask(fields, LIST)) == left


@pytest.mark.parametrize(
    "fields",
    [
        ",",
        "nodes,",
        "nodes(",
        "nodes(name",
        "nodes()",
        "nodes)",
        "nodes/",
        "/nodes",
        "nodes name",
        "nodes//name",
        "colour",
        "nodes/colour",
        "nodes(name,colour)",
        "nextPageToken/x",
        "nodes/name/x",
        "/".join(["nodes"] * 500),
        "(" * 4000,
        "a/" * 4000 + "a",
        "a(" * 4000 + "a" + ")" * 4000,
    ],
)
def test_what_is_no_mask_is_an_invalid_argument(fields):
    with pytest.raises(MalformedRequestError, match="Request contains an invalid argument"):
        parse_mask(fields, LIST)


def test_what_is_in_an_operation_cannot_be_known():
    mask = parse_mask("response/name,metadata(verb)", operations_pb2.Operation.DESCRIPTOR)
    document = {
        "name": "o",
        "response": {"name": "a", "id": "1"},
        "metadata": {"verb": "x", "y": 1},
    }
    assert apply_mask(document, mask) == {"response": {"name": "a"}, "metadata": {"verb": "x"}}
