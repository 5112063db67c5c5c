"""A recording changes nothing of what a command meets."""

import grpc
import pytest
from google.longrunning import operations_pb2

from tpuctl.api import cassette
from tpuctl.api.recorder import recording_api, response_document
from tpuctl.api.tpu.tpu import TpuApi
from tpuctl.errors import TransientError


class NoToken(grpc.UnaryUnaryClientInterceptor):
    """Every call ends before it is made."""

    def intercept_unary_unary(self, continuation, details, request):
        raise TransientError("cannot get an access token")


def test_a_call_that_is_never_made_fails_as_ever_and_is_not_recorded(tmp_path):
    tape = cassette.create(tmp_path / "c.jsonl", 0.0, "demo")
    channel = grpc.intercept_channel(grpc.insecure_channel("127.0.0.1:1"), NoToken())
    api = recording_api(TpuApi(channel, "demo"), tape, lambda: 0.0)
    with pytest.raises(TransientError, match="cannot get an access token"):
        api.list_nodes()
    assert cassette.count_calls(tape.path) == 0
    api.close()


def test_a_part_of_an_unknown_class_is_recorded_by_its_type():
    operation = operations_pb2.Operation(name="o", done=True)
    operation.metadata.type_url = "type.googleapis.com/google.cloud.future.Metadata"
    assert response_document(operation) == {
        "name": "o",
        "done": True,
        "metadata": {"@type": "type.googleapis.com/google.cloud.future.Metadata"},
    }
