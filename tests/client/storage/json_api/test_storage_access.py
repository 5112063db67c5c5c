"""Whom access control lists and policies let in, where callers are known: behind TLS."""

import itertools
import json
from functools import cache
from pathlib import Path

import pytest
import requests
from clouds import grpc_roots

from client.google.test_google_wires import token

pytest_plugins = ("client.google.google_server",)

NUMBERS = itertools.count(1)
JSON = {"Content-Type": "application/json"}
UNIFORM = {"iamConfiguration": {"uniformBucketLevelAccess": {"enabled": True}}}
PREVENTED = {"iamConfiguration": {"publicAccessPrevention": "enforced"}}


class Callers:
    """Requests by the service accounts that have keys, or by nobody that is known."""

    def __init__(self, cloud):
        self.base = cloud.line["google"]["storage"]
        self.token = cache(lambda account: token(cloud, account))
        self.session = requests.Session()

    def send(self, account, verb, path, document=None, **given):
        headers = {"Authorization": f"Bearer {self.token(account)}"} if account else {}
        if document is not None:
            given["data"], headers = json.dumps(document), headers | JSON
        return self.session.request(
            verb, f"{self.base}{path}", headers=headers, timeout=20, **given
        )

    def status(self, *given, **named):
        return self.send(*given, **named).status_code


@pytest.fixture(scope="module")
def callers(google_cloud):
    patch = pytest.MonkeyPatch()
    patch.setenv("REQUESTS_CA_BUNDLE", str(grpc_roots()))
    google_cloud.control.reset()
    found = Callers(google_cloud)
    yield found
    found.session.close()
    patch.undo()


@pytest.fixture
def box(callers):
    """The path of a bucket with the private object `x`."""
    name = f"access-{next(NUMBERS)}"
    assert callers.status("admin", "POST", "/storage/v1/b?project=p", {"name": name}) == 200
    upload(callers, "admin", f"/storage/v1/b/{name}", "x").raise_for_status()
    return f"/storage/v1/b/{name}"


def upload(callers, account, box, name, query=""):
    path = f"/upload{box}/o?uploadType=media&name={name}{query}"
    return callers.send(account, "POST", path, data=b"abc")


def grant(callers, path, entity, role):
    entry = {"entity": entity, "role": role}
    assert callers.status("admin", "POST", path, entry) == 200


def email(google_cloud, account):
    return json.loads(Path(google_cloud.line["google"]["keys"][account]).read_text())[
        "client_email"
    ]


def test_a_public_object_is_read_without_a_token(callers, box):
    name = box.rpartition("/")[2]
    paths = (f"{box}/o/x", f"{box}/o/x?alt=media", f"/download{box}/o/x?alt=media", f"/{name}/x")
    assert [callers.status(None, "GET", path) for path in paths] == [401, 401, 401, 403]
    grant(callers, f"{box}/o/x/acl", "allUsers", "READER")
    assert [callers.status(None, "GET", path) for path in paths] == [200] * 4
    assert callers.send(None, "GET", paths[3]).content == b"abc"
    assert callers.status("nobody", "GET", paths[0]) == 200
    assert callers.status(None, "GET", f"{box}/o") == 401
    assert callers.status(None, "DELETE", f"{box}/o/x") == 401


def test_who_has_no_token_is_told_so_in_googles_words(callers, box):
    reply = callers.send(None, "GET", f"{box}/o/x")
    message = (
        "Anonymous caller does not have storage.objects.get access to the Google Cloud Storage"
        " object. Permission 'storage.objects.get' denied on resource (or it may not exist)."
    )
    place = {"domain": "global", "locationType": "header", "location": "Authorization"}
    errors = [{"message": message, "reason": "required", **place}]
    assert reply.json()["error"] == {"code": 401, "message": message, "errors": errors}
    assert reply.headers["WWW-Authenticate"].startswith("Bearer realm=")


def test_an_object_for_all_who_have_a_token(callers, box):
    grant(callers, f"{box}/o/x/acl", "allAuthenticatedUsers", "READER")
    assert callers.status("nobody", "GET", f"{box}/o/x") == 200
    assert callers.status(None, "GET", f"{box}/o/x") == 401


def test_a_reader_reads_and_an_owner_changes(callers, box, google_cloud):
    entity = f"user-{email(google_cloud, 'nobody')}"
    change = {"metadata": {"a": "b"}}
    assert callers.status("nobody", "GET", f"{box}/o/x") == 403
    grant(callers, f"{box}/o/x/acl", entity, "READER")
    assert callers.status("nobody", "GET", f"{box}/o/x") == 200
    assert callers.status("nobody", "PATCH", f"{box}/o/x", change) == 403
    assert callers.status("nobody", "GET", f"{box}/o/x/acl") == 403
    assert "acl" not in callers.send("nobody", "GET", f"{box}/o/x?projection=full").json()
    grant(callers, f"{box}/o/x/acl", entity, "OWNER")
    assert callers.status("nobody", "PATCH", f"{box}/o/x", change) == 200
    assert callers.status("nobody", "GET", f"{box}/o/x/acl") == 200
    assert "acl" in callers.send("nobody", "PATCH", f"{box}/o/x?projection=full", change).json()
    assert callers.status("nobody", "PATCH", f"{box}/o/x?predefinedAcl=publicRead", {}) == 200
    assert callers.status(None, "GET", f"{box}/o/x") == 200
    assert callers.status("nobody", "DELETE", f"{box}/o/x") == 403


def test_a_writer_of_a_bucket_writes_and_owns_what_it_wrote(callers, box, google_cloud):
    address = email(google_cloud, "nobody")
    assert upload(callers, "nobody", box, "y").status_code == 403
    grant(callers, f"{box}/acl", f"user-{address}", "READER")
    assert callers.status("nobody", "GET", f"{box}/o") == 200
    assert upload(callers, "nobody", box, "y").status_code == 403
    grant(callers, f"{box}/acl", f"user-{address}", "WRITER")
    assert upload(callers, "nobody", box, "y").status_code == 200
    assert callers.status("nobody", "GET", f"{box}/o/x") == 403
    made = callers.send("admin", "GET", f"{box}/o/y?projection=full").json()
    assert made["owner"] == {"entity": f"user-{address}"}
    assert callers.status("nobody", "GET", f"{box}/o/y") == 200
    assert callers.status("nobody", "PATCH", f"{box}/o/y", {"metadata": {"a": "b"}}) == 200
    assert callers.status("nobody", "DELETE", f"{box}/o/x") == 204
    assert callers.status("nobody", "GET", box) == 200
    assert callers.status("nobody", "GET", f"{box}/acl") == 403
    assert callers.status("nobody", "PATCH", box, {"labels": {"a": "b"}}) == 403


def test_a_bucket_is_public_by_its_policy(callers, box):
    policy = callers.send("admin", "GET", f"{box}/iam").json()
    policy["bindings"].append({"role": "roles/storage.objectViewer", "members": ["allUsers"]})
    assert callers.status("admin", "PUT", f"{box}/iam", policy) == 200
    assert callers.send(None, "GET", f"{box}/o").json()["items"][0]["name"] == "x"
    assert callers.send(None, "GET", f"{box}/o/x?alt=media").content == b"abc"
    assert callers.status("admin", "PATCH", box, UNIFORM) == 200
    assert callers.status(None, "GET", f"{box}/o/x") == 200
    assert callers.status("admin", "PATCH", box, PREVENTED) == 200
    assert callers.status(None, "GET", f"{box}/o/x") == 401


def test_neither_uniform_access_nor_prevention_heeds_a_list(callers, box):
    grant(callers, f"{box}/o/x/acl", "allUsers", "READER")
    for settings in (UNIFORM, PREVENTED):
        assert callers.status("admin", "PATCH", box, settings) == 200
        assert callers.status(None, "GET", f"{box}/o/x") == 401
        off = {
            "uniformBucketLevelAccess": {"enabled": False},
            "publicAccessPrevention": "inherited",
        }
        assert callers.status("admin", "PATCH", box, {"iamConfiguration": off}) == 200
        assert callers.status(None, "GET", f"{box}/o/x") == 200


def test_a_generation_is_as_public_as_its_own_list(callers, box):
    assert callers.status("admin", "PATCH", box, {"versioning": {"enabled": True}}) == 200
    first = callers.send("admin", "GET", f"{box}/o/x").json()["generation"]
    upload(callers, "admin", box, "x", "&predefinedAcl=publicRead")
    assert callers.status(None, "GET", f"{box}/o/x") == 200
    assert callers.status(None, "GET", f"{box}/o/x?generation={first}") == 401


def test_a_copy_asks_for_its_source_and_for_its_target(callers, box, google_cloud):
    entity = f"user-{email(google_cloud, 'nobody')}"
    target = f"access-{next(NUMBERS)}"
    assert callers.status("admin", "POST", "/storage/v1/b?project=p", {"name": target}) == 200
    path = f"{box}/o/x/rewriteTo/b/{target}/o/y"
    grant(callers, f"/storage/v1/b/{target}/acl", entity, "WRITER")
    assert callers.status("nobody", "POST", path) == 403
    grant(callers, f"{box}/o/x/acl", "allUsers", "READER")
    assert callers.status("nobody", "POST", path) == 200
    assert callers.status("nobody", "POST", f"{box}/o/x/rewriteTo/{box[12:]}/o/y") == 403


def test_what_a_caller_may_do_with_an_object(callers, box, google_cloud):
    wanted = ["storage.objects.get", "storage.objects.update"]
    query = "&".join(f"permissions={each}" for each in wanted)
    path = f"{box}/o/x/iam/testPermissions?{query}"
    assert callers.send("admin", "GET", path).json()["permissions"] == wanted
    assert "permissions" not in callers.send("nobody", "GET", path).json()
    grant(callers, f"{box}/o/x/acl", f"user-{email(google_cloud, 'nobody')}", "READER")
    assert callers.send("nobody", "GET", path).json()["permissions"] == wanted[:1]


def test_a_list_is_set_only_by_who_may_set_it(callers, box, google_cloud):
    policy = callers.send("admin", "GET", f"{box}/iam").json()
    member = f"serviceAccount:{email(google_cloud, 'nobody')}"
    policy["bindings"].append({"role": "roles/storage.objectUser", "members": [member]})
    assert callers.status("admin", "PUT", f"{box}/iam", policy) == 200
    public = {"acl": [{"entity": "allUsers", "role": "READER"}]}
    assert callers.status("nobody", "PATCH", f"{box}/o/x", {"metadata": {"a": "b"}}) == 200
    assert callers.status("nobody", "PATCH", f"{box}/o/x", public) == 403
    assert callers.status("nobody", "PATCH", f"{box}/o/x?predefinedAcl=publicRead", {}) == 403
    assert callers.status(None, "GET", f"{box}/o/x") == 401
