"""Google's retry conformance cases for buckets and objects, through its unmodified client.

A case's failures are set up as a `/retry_test`; the call then succeeds or fails as the case says,
and every failure has happened: none is left, so nobody gave up early, and a call that must fail has
not been tried once more, or it would have succeeded.
"""

import gc
import json
from pathlib import Path

import pytest
from google.api_core.exceptions import GoogleAPICallError, RetryError
from google.auth.exceptions import GoogleAuthError
from requests.exceptions import RequestException

from client.storage.clients.storage_retry_methods import CALLS, Case
from client.storage.storage_fixtures import running

# The library leaves the reply to a download that failed to the garbage collector.
pytestmark = pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")

CASES = json.loads((Path(__file__).parent / "data" / "storage_retry_tests.json").read_text("utf-8"))
PAIRS = [
    (group, case["instructions"], method)
    for group in CASES["retryTests"]
    for case in group["cases"]
    for method in group["methods"]
]
FAILURES = (GoogleAPICallError, RetryError, GoogleAuthError, RequestException, ConnectionError)
"""A 401 makes the client renew its credentials, which anonymous ones cannot be."""


def named(pair) -> str:
    group, instructions, method = pair
    return f"{group['id']}-{method.get('group', method['name'])}-{'-'.join(instructions)}"


@pytest.fixture(autouse=True)
def tidy():
    yield
    gc.collect(1)


@pytest.fixture(scope="module")
def conformance(tmp_path_factory):
    with running(tmp_path_factory.mktemp("conformance")) as service:
        service.plain = service.client()
        service.bucket = service.plain.create_bucket("conformance")
        yield service


def prepared(service, method: str, instructions: list[str]) -> str:
    body = json.dumps({"instructions": {method: instructions}})
    return json.loads(service.request("POST", "/retry_test", body).body)["id"]


def test_the_cases_are_all_of_the_buckets_and_objects():
    of_the_data_path = [
        method["name"]
        for _, _, method in PAIRS
        if method["name"].startswith("storage.objects.")
        or method["name"].rpartition(".")[2] in ("get", "list", "insert", "delete")
    ]
    assert (len(PAIRS), len(of_the_data_path)) == (159, 111)


@pytest.mark.parametrize("pair", PAIRS, ids=named)
def test_a_case(conformance, pair):
    group, instructions, method = pair
    client = conformance.client()
    test_id = prepared(conformance, method["name"], instructions)
    client._http.headers["x-retry-test-id"] = test_id
    case = Case(client, conformance.plain, conformance.bucket, group["preconditionProvided"])
    call = CALLS[method.get("group", method["name"])]
    if group["expectSuccess"]:
        call(case)
    else:
        with pytest.raises(FAILURES):
            call(case)
    left = json.loads(conformance.request("GET", f"/retry_test/{test_id}").body)
    assert (left["completed"], left["instructions"]) == (True, {method["name"]: []})
