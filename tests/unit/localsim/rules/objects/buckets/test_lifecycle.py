"""Lifecycles: which actions and conditions are kept, and which are refused."""

import pytest

from localsim.rules.objects.bucket_settings.lifecycle import checked_lifecycle
from unit.localsim.rules.objects.object_rig import refusal_code

DELETE = {"type": "Delete"}
ABORT = {"type": "AbortIncompleteMultipartUpload"}


def rule(action, **condition):
    return {"rule": [{"action": action, "condition": condition}]}


@pytest.mark.parametrize(
    "lifecycle",
    [
        rule(DELETE, age=0),
        rule(DELETE, isLive=False, numNewerVersions=3, daysSinceNoncurrentTime=2),
        rule(DELETE, createdBefore="2026-01-31", customTimeBefore="2018-08-01"),
        rule(DELETE, noncurrentTimeBefore="2018-08-01", daysSinceCustomTime=2),
        rule(DELETE, matchesPrefix=["a/"], matchesSuffix=[".tmp"]),
        rule(
            {"type": "SetStorageClass", "storageClass": "COLDLINE"},
            matchesStorageClass=["NEARLINE"],
        ),
        rule(ABORT, age=42, matchesPrefix=["a"]),
    ],
)
def test_what_is_known_is_kept_as_it_came(lifecycle):
    assert checked_lifecycle(lifecycle) == lifecycle


def test_numbers_and_classes_have_one_form():
    assert checked_lifecycle(rule(DELETE, age="30")) == rule(DELETE, age=30)
    lower = rule(DELETE, matchesStorageClass=["nearline"])
    assert checked_lifecycle(lower) == rule(DELETE, matchesStorageClass=["NEARLINE"])


def test_nothing_is_none():
    assert [checked_lifecycle(value) for value in (None, {}, {"rule": []})] == [None] * 3


@pytest.mark.parametrize(
    "lifecycle",
    [
        rule({"type": "Frob"}, age=1),
        rule(DELETE),
        rule(DELETE, colour="red"),
        rule(DELETE, age=-1),
        rule(DELETE, age=True),
        rule(DELETE, age="soon"),
        rule(DELETE, createdBefore="yesterday"),
        rule(DELETE, createdBefore=5),
        rule(DELETE, isLive="no"),
        rule(DELETE, matchesPrefix="a"),
        rule(DELETE, matchesSuffix=[5]),
        rule(DELETE, matchesStorageClass=["WARM"]),
        rule({"type": "SetStorageClass"}, age=1),
        rule({"type": "SetStorageClass", "storageClass": "WARM"}, age=1),
        rule(ABORT, isLive=True),
        {"rule": rule(DELETE, age=1)["rule"] * 101},
        {"rule": [5]},
        {"rule": 5},
        5,
    ],
)
def test_what_no_rule_can_be_is_refused(lifecycle):
    assert refusal_code(checked_lifecycle, lifecycle) == 400
