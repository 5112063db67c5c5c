"""The table of docs/localsim.md: it counts right, forgets nothing, and claims nothing unproved."""

import ast
import re
from functools import cache
from pathlib import Path
from typing import NamedTuple

import grpc
import pytest

from client.storage.storage_fixtures import running
from client.tpu.tpu_service import START_S, serving
from client.tpu.wire.method_names import METHODS
from localsim.clock import Clock
from localsim.rules.scenario.scenario import Scenario
from localsim.services.other_apis import other_api_server
from localsim.services.storage import routes

TESTS = Path(__file__).parents[2]
PAGE = (TESTS.parent / "docs" / "localsim.md").read_text("utf-8")
SOURCES = ("observed: ", "documented: page ")
NEIGHBOURS = (
    "compute.",
    "serviceusage.",
    "cloudresourcemanager.",
    "secretmanager.",
    "cloudbilling.",
    "cloudquotas.",
    "iam.",
    "iamcredentials.",
    "logging.",
    "monitoring.",
)
KINDS = ("faithful", "simplified", "absent")
EVIDENCE = ("observed", "documented", "assumed")


class Row(NamedTuple):
    """One line of a table under "Fidelity"."""

    subject: str
    versions: str
    kind: str
    how: str
    evidence: str
    test: str

    @property
    def method(self) -> str:
        """The name of a method, or nothing where the row is about a behaviour."""
        found = re.fullmatch(r"`([\w.]+)`", self.subject)
        return found[1] if found else ""


def section() -> str:
    return PAGE.partition("\n## Fidelity\n")[2].partition("\n### The chip")[0].strip()


def rows() -> list[Row]:
    found = []
    for line in section().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("|") and set(KINDS) & set(cells):
            subject, *versions = cells[: cells.index(next(k for k in cells if k in KINDS))]
            found.append(Row(subject, "".join(versions), *cells[-4:]))
    return found


ROWS = rows()
TPU = {row.method: row for row in ROWS if row.versions}
STORAGE = {row.method: row for row in ROWS if row.method.startswith("storage.")}


def test_the_first_line_counts_the_rows():
    kinds = [sum(row.kind == kind for row in ROWS) for kind in KINDS]
    evidence = [sum(row.evidence.startswith(each) for row in ROWS) for each in EVIDENCE]
    told = "{} rows: {} faithful, {} simplified, {} absent; {} observed, {} documented, {} assumed."
    assert section().splitlines()[0] == told.format(len(ROWS), *kinds, *evidence)


def test_no_line_of_a_table_is_overlooked():
    lines = [line for line in section().splitlines() if line.startswith("|")]
    heads = sum(line.startswith("|---") for line in lines)
    assert len(ROWS) == len(lines) - 2 * heads


@pytest.mark.parametrize("version", METHODS)
def test_every_method_has_a_row(version):
    told = {method for method, row in TPU.items() if version in row.versions.split(", ")}
    assert {method for method in told if TPU[method].kind != "absent"} == set(METHODS[version])


def test_every_row_names_its_evidence():
    for row in ROWS:
        assert row.evidence == "assumed" or row.evidence.startswith(SOURCES), row.subject
        if row.kind == "faithful":
            assert "assumed" not in f"{row.how} {row.evidence}", row.subject
        if row.kind == "simplified":
            assert row.how or row.evidence == "assumed", row.subject


def test_every_row_names_a_test_that_there_is():
    called = [row for row in ROWS if row.kind != "absent" or row.method]
    for row in called:
        module, _, name = row.test.strip("`").partition("::")
        assert name in functions(module), row.subject


@cache
def functions(module: str) -> frozenset[str]:
    (path,) = TESTS.rglob(f"{module}.py")
    tree = ast.parse(path.read_text("utf-8"))
    return frozenset(node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))


CALLS = {
    "WaitOperation": "/google.longrunning.Operations/WaitOperation",
    "google.cloud.tpu.v1": "/google.cloud.tpu.v1.Tpu/ListNodes",
}


def test_what_is_absent_of_cloud_tpu_says_so(tmp_path):
    assert set(CALLS) == {name for name, row in TPU.items() if row.kind == "absent"}
    clock = Clock(manual_start_s=START_S)
    with serving(tmp_path / "state.sqlite", clock=clock, scenario=Scenario()) as service:
        for call in CALLS.values():
            with pytest.raises(grpc.RpcError) as refused:
                service.channel.unary_unary(call)(b"")
            assert refused.value.code() is grpc.StatusCode.UNIMPLEMENTED
            assert call.rpartition("/")[2] in refused.value.details()


BUCKETS, OBJECTS = "/storage/v1/b", "/storage/v1/b/box/o"
REQUESTS = {
    "storage.buckets.insert": f"POST {BUCKETS}",
    "storage.buckets.get": f"GET {BUCKETS}/box",
    "storage.buckets.list": f"GET {BUCKETS}",
    "storage.buckets.delete": f"DELETE {BUCKETS}/box",
    "storage.buckets.patch": f"PATCH {BUCKETS}/box",
    "storage.buckets.update": f"PUT {BUCKETS}/box",
    "storage.objects.insert": (
        "POST /upload/storage/v1/b/box/o, PUT /resumable/upload/storage/v1/b/box/o, "
        "DELETE /upload/storage/v1/b/box/o"
    ),
    "storage.objects.get": f"GET {OBJECTS}/x, GET /download{OBJECTS}/x",
    "storage.objects.list": f"GET {OBJECTS}",
    "storage.objects.patch": f"PATCH {OBJECTS}/x",
    "storage.objects.update": f"PUT {OBJECTS}/x",
    "storage.objects.delete": f"DELETE {OBJECTS}/x",
    "storage.objects.compose": f"POST {OBJECTS}/x/compose",
    "storage.objects.rewrite": f"POST {OBJECTS}/x/rewriteTo/b/box/o/y",
    "storage.objects.copy": f"POST {OBJECTS}/x/copyTo/b/box/o/y",
    "storage.objects.move": f"POST {OBJECTS}/x/moveTo/o/y",
    "storage.objects.restore": f"POST {OBJECTS}/x/restore",
    "storage.batch": "POST /batch/storage/v1",
    "storage.buckets.getIamPolicy": f"GET {BUCKETS}/box/iam",
    "storage.buckets.setIamPolicy": f"PUT {BUCKETS}/box/iam",
    "storage.buckets.testIamPermissions": f"GET {BUCKETS}/box/iam/testPermissions",
    "storage.buckets.lockRetentionPolicy": f"POST {BUCKETS}/box/lockRetentionPolicy",
    "storage.buckets.getStorageLayout": f"GET {BUCKETS}/box/storageLayout",
    "storage.buckets.restore": f"POST {BUCKETS}/box/restore",
    "storage.buckets.relocate": f"POST {BUCKETS}/box/relocate",
    "storage.objects.bulkRestore": f"POST {OBJECTS}/bulkRestore",
    "storage.objects.watchAll": f"POST {OBJECTS}/watch",
    "storage.objects.getIamPolicy": f"GET {OBJECTS}/x/iam",
    "storage.objects.setIamPolicy": f"PUT {OBJECTS}/x/iam",
    "storage.objects.testIamPermissions": f"GET {OBJECTS}/x/iam/testPermissions",
    "storage.bucket_acl.list": f"GET {BUCKETS}/box/acl",
    "storage.bucket_acl.insert": f"POST {BUCKETS}/box/acl",
    "storage.bucket_acl.get": f"GET {BUCKETS}/box/acl/allUsers",
    "storage.bucket_acl.patch": f"PATCH {BUCKETS}/box/acl/allUsers",
    "storage.bucket_acl.update": f"PUT {BUCKETS}/box/acl/allUsers",
    "storage.bucket_acl.delete": f"DELETE {BUCKETS}/box/acl/allUsers",
    "storage.default_object_acl.list": f"GET {BUCKETS}/box/defaultObjectAcl",
    "storage.default_object_acl.insert": f"POST {BUCKETS}/box/defaultObjectAcl",
    "storage.default_object_acl.get": f"GET {BUCKETS}/box/defaultObjectAcl/allUsers",
    "storage.default_object_acl.patch": f"PATCH {BUCKETS}/box/defaultObjectAcl/allUsers",
    "storage.default_object_acl.update": f"PUT {BUCKETS}/box/defaultObjectAcl/allUsers",
    "storage.default_object_acl.delete": f"DELETE {BUCKETS}/box/defaultObjectAcl/allUsers",
    "storage.object_acl.list": f"GET {OBJECTS}/x/acl",
    "storage.object_acl.insert": f"POST {OBJECTS}/x/acl",
    "storage.object_acl.get": f"GET {OBJECTS}/x/acl/allUsers",
    "storage.object_acl.patch": f"PATCH {OBJECTS}/x/acl/allUsers",
    "storage.object_acl.update": f"PUT {OBJECTS}/x/acl/allUsers",
    "storage.object_acl.delete": f"DELETE {OBJECTS}/x/acl/allUsers",
    "storage.notifications.list": f"GET {BUCKETS}/box/notificationConfigs",
    "storage.notifications.insert": f"POST {BUCKETS}/box/notificationConfigs",
    "storage.notifications.get": f"GET {BUCKETS}/box/notificationConfigs/1",
    "storage.notifications.delete": f"DELETE {BUCKETS}/box/notificationConfigs/1",
    "storage.channels.stop": "POST /storage/v1/channels/stop",
    "storage.projects.hmacKeys.create": "POST /storage/v1/projects/p/hmacKeys",
    "storage.projects.hmacKeys.list": "GET /storage/v1/projects/p/hmacKeys",
    "storage.projects.hmacKeys.get": "GET /storage/v1/projects/p/hmacKeys/x",
    "storage.projects.hmacKeys.update": "PUT /storage/v1/projects/p/hmacKeys/x",
    "storage.projects.hmacKeys.delete": "DELETE /storage/v1/projects/p/hmacKeys/x",
    "storage.projects.serviceAccount.get": "GET /storage/v1/projects/p/serviceAccount",
    "storage.folders.insert": f"POST {BUCKETS}/box/folders",
    "storage.folders.list": f"GET {BUCKETS}/box/folders",
    "storage.folders.get": f"GET {BUCKETS}/box/folders/x",
    "storage.folders.delete": f"DELETE {BUCKETS}/box/folders/x",
    "storage.folders.deleteRecursive": f"POST {BUCKETS}/box/folders/x/deleteRecursive",
    "storage.folders.rename": f"POST {BUCKETS}/box/folders/x/renameTo/folders/y",
    "storage.managedFolders.insert": f"POST {BUCKETS}/box/managedFolders",
    "storage.managedFolders.list": f"GET {BUCKETS}/box/managedFolders",
    "storage.managedFolders.get": f"GET {BUCKETS}/box/managedFolders/x",
    "storage.managedFolders.delete": f"DELETE {BUCKETS}/box/managedFolders/x",
    "storage.managedFolders.getIamPolicy": f"GET {BUCKETS}/box/managedFolders/x/iam",
    "storage.managedFolders.setIamPolicy": f"PUT {BUCKETS}/box/managedFolders/x/iam",
    "storage.managedFolders.testIamPermissions": (
        f"GET {BUCKETS}/box/managedFolders/x/iam/testPermissions"
    ),
    "storage.anywhereCaches": f"GET {BUCKETS}/box/anywhereCaches",
    "storage.buckets.operations.list": f"GET {BUCKETS}/box/operations",
    "storage.buckets.operations.get": f"GET {BUCKETS}/box/operations/x",
    "storage.buckets.operations.cancel": f"POST {BUCKETS}/box/operations/x/cancel",
    "storage.buckets.operations.advanceRelocateBucket": (
        f"POST {BUCKETS}/box/operations/x/advanceRelocateBucket"
    ),
}
"""The methods of the JSON API, each with the requests by which it is reached."""


def test_every_method_of_cloud_storage_has_a_row():
    assert {route.name for route in routes.ROUTES} == set(STORAGE) == set(REQUESTS)


def test_what_is_absent_of_cloud_storage_says_so(tmp_path):
    with running(tmp_path) as served:
        for method, row in STORAGE.items():
            verb, path = REQUESTS[method].split(", ")[0].split()
            reply = served.request(verb, path)
            assert (reply.status == 501) == (row.kind == "absent"), method


def test_every_method_of_the_neighbours_has_a_row():
    served = {f"{row.service.partition('.')[0]}.{row.name}" for row in other_api_server.ROWS}
    assert {row.method for row in ROWS if row.method.startswith(NEIGHBOURS)} == served
