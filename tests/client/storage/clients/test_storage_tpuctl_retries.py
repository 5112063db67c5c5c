"""What tpuctl sends again, counted by the server: nothing that Cloud Storage forbids.

Every write of the store names a generation and every read changes nothing, so both may be repeated
when the connection is lost or the answer is transient; all other answers are final.
"""

import gc
import itertools
import json

import pytest

from client.storage.storage_fixtures import running
from tpuctl.errors import TpuctlError
from tpuctl.store import open_store

pytestmark = [
    pytest.mark.usefixtures("impatient"),
    # google.auth leaves the reply to a download that needs a new token to the garbage collector.
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]

NUMBERS = itertools.count()
INSERT, GET = "storage.objects.insert", "storage.objects.get"
LIST, DELETE = "storage.objects.list", "storage.objects.delete"
CALLS = {
    "put_if_absent": (INSERT, lambda store, _: store.put_if_absent("new", b"x")),
    "put_if_generation": (INSERT, lambda store, old: store.put_if_generation("old", b"x", old)),
    "get_range": (GET, lambda store, _: store.get_range("old")),
    "head": (GET, lambda store, _: store.head("old")),
    "list": (LIST, lambda store, _: list(store.list())),
    "delete": (DELETE, lambda store, old: store.delete("old", generation=old)),
    "delete whatever it is": (DELETE, lambda store, _: store.delete("old")),
}
FINAL = ("return-400", "return-401", "return-403", "return-412")
PASSING = ("return-503", "return-408", "return-429", "return-reset-connection")


@pytest.fixture(scope="module")
def retried(tmp_path_factory):
    with running(tmp_path_factory.mktemp("retried")) as service:
        service.client().create_bucket("box")
        yield service


@pytest.fixture
def impatient(immediate_retries):
    """The pauses between two attempts take no time."""
    yield
    gc.collect(1)


def failing(service, method, instructions):
    """A store whose calls of the method meet these failures, the generation of its `old`, and
    what says which of them have not happened."""
    client = service.client()
    store = open_store(f"gs://box/{next(NUMBERS)}", client=client)
    old = store.put_if_absent("old", b"old").generation
    body = json.dumps({"instructions": {method: list(instructions)}})
    test_id = json.loads(service.request("POST", "/retry_test", body).body)["id"]
    client._http.headers["x-retry-test-id"] = test_id

    def left():
        shown = json.loads(service.request("GET", f"/retry_test/{test_id}").body)
        return shown["instructions"][method]

    return store, old, left


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("failure", FINAL)
def test_a_final_answer_is_final(retried, name, failure):
    method, call = CALLS[name]
    tries = 5 if (name, failure) == ("delete whatever it is", "return-412") else 1
    store, old, left = failing(retried, method, [failure] * 6)
    with pytest.raises(TpuctlError):
        call(store, old)
    # Of an object that changes, the next generation is another request.
    assert len(left()) == 6 - tries


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("failure", PASSING)
def test_what_passes_is_tried_again_and_no_more_than_needed(retried, name, failure):
    method, call = CALLS[name]
    store, old, left = failing(retried, method, [failure, failure])
    call(store, old)
    assert left() == []


@pytest.mark.parametrize(
    "failure",
    ["return-broken-stream-final-chunk-after-3B", "return-503-after-8192K", "return-503-after-256K"]
    + ["return-reset-connection"],
)
def test_an_upload_that_breaks_off_goes_on_and_is_known_as_the_own_one(retried, failure):
    store, _, left = failing(retried, INSERT, [failure])
    data = b"x" * (9 * 1024 * 1024)  # above 8 MiB an upload resumes
    entry = store.put_if_absent("new", data)
    assert (left(), entry.size_bytes) == ([], len(data))
    assert store.head("new") == entry


def test_a_read_goes_on_where_it_was_cut_off(retried):
    store, _, left = failing(retried, GET, ["return-broken-stream-after-256K"] * 2)
    data = bytes(range(256)) * 4096
    store.put_if_absent("large", data)
    assert (store.get_range("large"), left()) == (data, [])


def test_wrong_bytes_are_never_handed_out(retried):
    store, _, left = failing(retried, GET, ["return-corrupted-data"] * 9)
    with pytest.raises(TpuctlError, match="checksum"):
        store.get_range("old")
    assert len(left()) == 8
