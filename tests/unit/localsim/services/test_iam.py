"""Permissions: one table for every wire, and nobody who may something by accident."""

import re

import pytest

from localsim.rules.scenario.roles import TPU_METHODS, permissions
from localsim.services.auth import iam
from localsim.services.storage.permissions import needs_of
from localsim.services.storage.routes import ROUTES
from localsim.services.tpu.tpu_methods import all_methods


def allowed(account: str) -> frozenset[str]:
    return permissions(iam.ACCOUNTS[account])


def test_every_method_that_is_served_asks_for_a_permission_and_can_go_wrong():
    served = {method.name for method in all_methods()}
    assert set(TPU_METHODS) == served
    assert set(TPU_METHODS.values()) <= allowed("admin")


def test_a_viewer_may_nothing_that_changes_anything():
    readable = {name for name, needed in TPU_METHODS.items() if needed in allowed("viewer")}
    assert {name for name in readable if not name.startswith(("Get", "List"))} == set()
    assert "ListNodes" in readable


def test_nobody_may_nothing():
    assert allowed("nobody") == frozenset()


@pytest.mark.parametrize(
    ("verb", "path", "permissions"),
    [
        ("GET", "/storage/v1/b", ("storage.buckets.list",)),
        ("POST", "/storage/v1/b", ("storage.buckets.create",)),
        ("GET", "/storage/v1/b/x", ("storage.buckets.get",)),
        ("PATCH", "/storage/v1/b/x", ("storage.buckets.update",)),
        ("DELETE", "/storage/v1/b/upload", ("storage.buckets.delete",)),
        ("GET", "/storage/v1/b/x/iam", ("storage.buckets.getIamPolicy",)),
        ("PUT", "/storage/v1/b/x/iam", ("storage.buckets.setIamPolicy",)),
        ("GET", "/storage/v1/b/x/iam/testPermissions", ()),
        ("GET", "/storage/v1/b/upload/o", ("storage.objects.list",)),
        ("GET", "/storage/v1/b/x/o/a", ("storage.objects.get",)),
        ("HEAD", "/storage/v1/b/x/o/a", ("storage.objects.get",)),
        ("GET", "/download/storage/v1/b/x/o/b%2Fo", ("storage.objects.get",)),
        ("PATCH", "/storage/v1/b/x/o/a", ("storage.objects.update",)),
        ("DELETE", "/storage/v1/b/x/o/a", ("storage.objects.delete",)),
        ("POST", "/storage/v1/b/x/o/a/compose", ("storage.objects.get", "storage.objects.create")),
        ("POST", "/upload/storage/v1/b/x/o", ("storage.objects.create",)),
        ("PUT", "/resumable/upload/storage/v1/b/x/o", ("storage.objects.create",)),
        ("PUT", "/upload/storage/v1/b/x/o", ("storage.objects.create",)),
        ("GET", "/storage/v1/nothing/of/ours", ()),
    ],
)
def test_what_storage_asks_for_is_what_the_method_asks_for(verb, path, permissions):
    needs = needs_of(verb, path)
    assert tuple(permission for permission, _ in needs.of_permissions) == permissions


def test_who_administers_storage_may_all_that_any_method_asks_for():
    asked = {
        permission
        for route in ROUTES
        for permission, _ in needs_of(route.method, _path_of(route)).of_permissions
        if route.handler.__name__ != "refuse"
    }
    assert asked - {"storage.batch"} <= allowed("admin")


def _path_of(route):
    """A path that the route's pattern takes."""
    path = re.sub(r"\(\?P<\w+>[^)]*\)", "x", route.pattern.pattern)
    return path.replace("(?:/resumable)?", "").replace("(?:/.*)?", "")
