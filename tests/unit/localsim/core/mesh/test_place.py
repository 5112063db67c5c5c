"""A worker of the simulated mesh finds itself: by variables, or at the metadata server."""

import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from localsim.core import Mesh, MeshError
from localsim.core.wire.slice_membership import SliceMembership, find_membership

ATTRIBUTES = {
    "accelerator-type": "v5litepod-16",
    "agent-worker-number": "2",
    "worker-network-endpoints": "unknown:unknown:10.128.0.2,unknown:unknown:10.128.0.3",
}


@pytest.fixture
def metadata_server():
    """Attributes that a metadata server on loopback tells, and the environment that names it."""
    attributes = dict(ATTRIBUTES)

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self):
            told = attributes.get(self.path.rpartition("/")[2])
            is_right = self.headers["Metadata-Flavor"] == "Google"
            self.send_response(200 if told is not None and is_right else 404)
            self.end_headers()
            self.wfile.write((told or "").encode())

        def log_message(self, *_):
            pass

    with HTTPServer(("127.0.0.1", 0), Answer) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield attributes, {"GCE_METADATA_IP": f"127.0.0.1:{server.server_port}"}
        server.shutdown()
        thread.join()


def test_with_no_variable_the_metadata_server_tells_where_the_workers_meet(metadata_server):
    _, environ = metadata_server
    addresses = ("10.128.0.2:8476", "10.128.0.3:8476")
    assert find_membership(environ) == SliceMembership("v5litepod-16", 2, addresses)


def test_endpoints_may_be_bare_hosts(metadata_server):
    attributes, environ = metadata_server
    attributes["worker-network-endpoints"] = "t1v-n-1-w-0,t1v-n-1-w-1"
    assert find_membership(environ).addresses == ("t1v-n-1-w-0:8476", "t1v-n-1-w-1:8476")


@pytest.mark.parametrize(
    "told",
    [
        {"TPU_ACCELERATOR_TYPE": "v4-16", "TPU_PROCESS_ADDRESSES": "a:1,b:2", "TPU_WORKER_ID": "1"},
        {"TPU_SKIP_MDS_QUERY": "1"},
    ],
)
def test_variables_come_before_the_metadata_server(metadata_server, told):
    _, environ = metadata_server
    expected = (
        SliceMembership("v4-16", 1, ("a:1", "b:2"))
        if len(told) > 1
        else SliceMembership("v5litepod-1", 0, ())
    )
    assert find_membership({**environ, **told}) == expected


def test_where_nothing_tells_of_a_slice_there_is_one_chip():
    with Mesh.connect({}) as mesh:
        assert (mesh.accelerator_type, len(mesh.chips)) == ("v5litepod-1", 1)


@pytest.mark.parametrize(
    ("missing", "reason"),
    [("agent-worker-number", "status 404"), ("accelerator-type", "status 404")],
)
def test_a_metadata_server_that_does_not_tell_is_named(metadata_server, missing, reason):
    attributes, environ = metadata_server
    del attributes[missing]
    with pytest.raises(MeshError, match=f"does not tell {missing}: {reason}"):
        find_membership(environ)


def test_a_metadata_server_that_is_not_there_is_a_lost_mesh():
    with pytest.raises(MeshError, match=r"127.0.0.1:1 does not tell"):
        Mesh.connect({"GCE_METADATA_IP": "127.0.0.1:1"})
