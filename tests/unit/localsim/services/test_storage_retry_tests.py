"""The retry tests of a server, without one."""

import json

import pytest

from localsim.rules.objects.storage_model import StorageError
from localsim.rules.scenario.fault_types import StorageRefusal
from localsim.services.storage.wire.retry_tests import MOST_TESTS, RetryTests

GET = "storage.objects.get"


def inserted(tests, *instructions):
    return tests.insert(json.dumps({"instructions": {GET: instructions}}).encode())["id"]


def test_the_oldest_are_forgotten():
    tests = RetryTests()
    first, second = inserted(tests, "return-503"), inserted(tests, "return-503")
    for _ in range(MOST_TESTS - 1):
        inserted(tests, "return-503")
    with pytest.raises(StorageError, match=f"Retry Test {first} does not exist"):
        tests.get(first)
    assert len(tests.resources()) == MOST_TESTS
    assert tests.resources()[0]["id"] == second


def test_an_instruction_is_gone_when_it_has_happened_and_only_once():
    tests = RetryTests()
    test_id = inserted(tests, "return-503", "return-503")
    (one,), (other,) = tests.armed(test_id, GET), tests.armed(test_id, GET)
    assert one.effect == other.effect == StorageRefusal(503)
    assert (one.strike(), other.strike()) == (True, False)
    assert tests.get(test_id)["instructions"] == {GET: ["return-503"]}
    (last,) = tests.armed(test_id, GET)
    assert (last.strike(), tests.get(test_id)["completed"]) == (True, True)
    assert tests.armed(test_id, GET) == []


def test_what_is_deleted_meanwhile_is_not_counted():
    tests = RetryTests()
    test_id = inserted(tests, "return-503")
    (armed,) = tests.armed(test_id, GET)
    tests.delete(test_id)
    armed.strike()
    assert tests.resources() == []
