"""Access control lists through Google's own client, and byte by byte what it never sends."""

import json

import pytest
from google.api_core import exceptions

pytest_plugins = ("client.storage.storage_fixtures",)

PUBLIC = {"entity": "allUsers", "role": "READER"}
LISTS = ("acl", "defaultObjectAcl", "o/x/acl")


@pytest.fixture
def blob(own_bucket):
    blob = own_bucket.blob("x")
    blob.upload_from_string(b"abc")
    return blob


def roles(acl) -> dict[str, str]:
    acl.reload()
    return {entry["entity"]: entry["role"] for entry in acl}


def test_the_lists_of_a_new_bucket_are_those_of_its_project(own_bucket):
    own_bucket.reload()
    teams = [f"project-{team}-{own_bucket.project_number}" for team in ("owners", "editors")]
    assert roles(own_bucket.acl) == roles(own_bucket.default_object_acl)
    assert list(roles(own_bucket.acl))[:2] == teams


def test_a_bucket_and_what_will_be_in_it_is_made_public_and_private_again(own_bucket):
    own_bucket.make_public(future=True)
    assert roles(own_bucket.acl)["allUsers"] == "READER"
    own_bucket.blob("y").upload_from_string(b"")
    assert roles(own_bucket.blob("y").acl)["allUsers"] == "READER"
    own_bucket.make_private(future=True)
    assert "allUsers" not in roles(own_bucket.acl)
    assert "allUsers" not in roles(own_bucket.default_object_acl)


def test_entries_of_every_kind_come_and_go(own_bucket, blob):
    for holder in (own_bucket.acl, own_bucket.default_object_acl, blob.acl):
        holder.user("Ann@example.com").grant_read()
        holder.group("tpu@example.com").grant_owner()
        holder.domain("example.com").grant_read()
        holder.all_authenticated().grant_read()
        holder.save()
        found = roles(holder)
        assert found["user-ann@example.com"] == found["domain-example.com"] == "READER"
        assert found["group-tpu@example.com"] == "OWNER"
        assert found["allAuthenticatedUsers"] == "READER"
        del holder.entities["domain-example.com"]
        holder.save()
        assert "domain-example.com" not in roles(holder)


def test_predefined_lists(own_bucket, blob):
    own_bucket.acl.save_predefined("publicReadWrite")
    assert roles(own_bucket.acl)["allUsers"] == "WRITER"
    own_bucket.default_object_acl.save_predefined("private")
    assert roles(own_bucket.default_object_acl) == {}
    blob.acl.save_predefined("bucketOwnerRead")
    assert list(roles(blob.acl).values()) == ["OWNER", "READER"]
    made = own_bucket.client.create_bucket(
        f"{own_bucket.name}-2",
        predefined_acl="publicRead",
        predefined_default_object_acl="authenticatedRead",
    )
    assert roles(made.acl)["allUsers"] == "READER"
    assert roles(made.default_object_acl) == {"allAuthenticatedUsers": "READER"}
    written = made.blob("y")
    written.upload_from_string(b"abc", predefined_acl="publicRead")
    assert roles(written.acl)["allUsers"] == "READER"


def test_a_save_needs_the_metageneration_it_saw(own_bucket, blob):
    blob.acl.all().grant_read()
    with pytest.raises(exceptions.PreconditionFailed):
        blob.acl.save(if_metageneration_match=7)
    blob.acl.save(if_metageneration_match=blob.metageneration)
    own_bucket.reload()
    own_bucket.acl.all().grant_read()
    with pytest.raises(exceptions.PreconditionFailed):
        own_bucket.acl.save(if_metageneration_match=own_bucket.metageneration + 1)


def test_uniform_access_refuses_them_in_googles_words(own_bucket, blob):
    own_bucket.iam_configuration.uniform_bucket_level_access_enabled = True
    own_bucket.patch()
    with pytest.raises(exceptions.BadRequest, match="for a bucket that has uniform"):
        own_bucket.acl.reload()
    with pytest.raises(exceptions.BadRequest, match="Cannot get legacy ACL for an object when"):
        blob.acl.reload()
    with pytest.raises(exceptions.BadRequest, match="Cannot update access control for an object"):
        blob.acl.save_predefined("publicRead")
    with pytest.raises(exceptions.BadRequest, match="Cannot insert legacy ACL for an object"):
        blob.upload_from_string(b"", predefined_acl="private")
    assert "acl" not in own_bucket.client.get_bucket(own_bucket.name)._properties


def test_public_access_prevention_refuses_everybody(own_bucket, blob):
    own_bucket.iam_configuration.public_access_prevention = "enforced"
    own_bucket.patch()
    for holder in (own_bucket, blob):
        with pytest.raises(exceptions.PreconditionFailed, match="public access prevention"):
            holder.make_public()


def test_copies_and_compositions_get_the_list_that_is_asked_for(box, own_bucket, blob):
    blob.make_public()
    query = "destinationPredefinedAcl=authenticatedRead&projection=full"
    sources = json.dumps({"sourceObjects": [{"name": "x"}]}).encode()
    for path, body in (
        (f"x/copyTo/b/{box.name}/o/y", b""),
        (f"x/rewriteTo/b/{box.name}/o/y", b""),
        ("y/compose", sources),
    ):
        made = box.request("POST", f"{box.objects}/{path}?{query}", body).json
        made = made.get("resource", made)
        assert [entry["role"] for entry in made["acl"]] == ["OWNER", "READER"]
        assert made["acl"][1]["entity"] == "allAuthenticatedUsers"
        assert made["acl"][0]["entity"] == made["owner"]["entity"]
    copied = own_bucket.copy_blob(blob, own_bucket, "z", preserve_acl=False)
    assert "allUsers" not in roles(copied.acl)


def test_the_policy_of_an_object(box, own_bucket, blob):
    blob.make_public()
    path = f"{box.objects}/x/iam"
    policy = box.request("GET", path).json
    assert policy["kind"] == "storage#policy"
    assert policy["bindings"][-1] == {
        "role": "roles/storage.legacyObjectReader",
        "members": [policy["bindings"][-1]["members"][0], "allUsers"],
    }
    policy["bindings"].pop()
    box.request("PUT", path, json.dumps(policy).encode())
    assert "allUsers" not in roles(blob.acl)
    asked = f"{path}/testPermissions?permissions=storage.objects.get"
    assert box.request("GET", asked).json["permissions"] == ["storage.objects.get"]


# Byte by byte.


@pytest.mark.parametrize("path", LISTS)
def test_one_entry_from_insert_to_delete(box, path):
    box.upload("x", b"abc")
    url = f"{box.bucket_path}/{path}"
    entry = {"entity": "user-Ann@example.com", "role": "READER"}
    made = box.request("POST", url, json.dumps(entry).encode()).json
    assert (made["entity"], made["role"]) == ("user-ann@example.com", "READER")
    assert made["email"] == "ann@example.com"
    one = f"{url}/user-ann@example.com"
    assert box.request("GET", one).json == made
    for verb in ("PATCH", "PUT"):
        assert box.request(verb, one, b'{"role": "OWNER"}').json["role"] == "OWNER"
    assert box.request("DELETE", one).status == 204
    for verb, body in (("GET", b""), ("DELETE", b""), ("PATCH", b'{"role": "OWNER"}')):
        found = box.request(verb, one, body)
        assert (found.status, found.reason) == (404, "notFound")


def test_the_resources_are_googles(box):
    box.upload("a%2Fb", b"abc")
    bucket = box.request("GET", f"{box.bucket_path}?projection=full").json
    number, name = bucket["projectNumber"], box.name
    entity = f"project-owners-{number}"
    assert bucket["owner"] == {"entity": entity}
    link = bucket["selfLink"]
    assert bucket["acl"][0] == {
        "kind": "storage#bucketAccessControl",
        "id": f"{name}/{entity}",
        "selfLink": f"{link}/acl/{entity}",
        "bucket": name,
        "entity": entity,
        "role": "OWNER",
        "projectTeam": {"projectNumber": number, "team": "owners"},
        "etag": "CAE=",
    }
    assert bucket["defaultObjectAcl"][2]["projectTeam"]["team"] == "viewers"
    assert "id" not in bucket["defaultObjectAcl"][2]
    stored = box.request("GET", f"{box.objects}/a%2Fb?projection=full").json
    last = stored["acl"][-1]
    assert last == {
        "kind": "storage#objectAccessControl",
        "object": "a/b",
        "generation": stored["generation"],
        "id": f"{name}/a/b/{stored['generation']}/{stored['owner']['entity']}",
        "selfLink": f"{stored['selfLink']}/acl/{stored['owner']['entity']}",
        "bucket": name,
        "entity": stored["owner"]["entity"],
        "role": "OWNER",
        "email": stored["owner"]["entity"].removeprefix("user-"),
        "etag": stored["etag"],
    }
    (listed,) = box.request("GET", f"{box.objects}?projection=full&fields=items(acl/role)").json[
        "items"
    ]
    assert listed == {"acl": [{"role": entry["role"]} for entry in stored["acl"]]}


def test_lists_are_shown_only_when_they_are_asked_for(box):
    plain = box.upload("x", b"abc").json
    assert {"acl", "owner"}.isdisjoint(plain)
    assert {"acl", "owner"}.isdisjoint(box.request("GET", f"{box.objects}/x").json)
    assert {"acl", "owner"}.isdisjoint(box.request("GET", box.bucket_path).json)
    (listed,) = box.request("GET", f"/storage/v1/b?project=p&prefix={box.name}").json["items"]
    assert "defaultObjectAcl" not in listed
    patch = json.dumps({"acl": [PUBLIC]}).encode()
    assert PUBLIC.items() <= box.request("PATCH", f"{box.objects}/x", patch).json["acl"][0].items()


def test_uniform_access_has_an_older_name(box):
    def patch(**fields):
        body = json.dumps({"iamConfiguration": fields}).encode()
        return box.request("PATCH", box.bucket_path, body).json["iamConfiguration"]

    on = patch(bucketPolicyOnly={"enabled": True})
    assert on["bucketPolicyOnly"] == on["uniformBucketLevelAccess"]
    assert on["bucketPolicyOnly"]["lockedTime"]
    off = patch(bucketPolicyOnly={"enabled": False})
    assert off["bucketPolicyOnly"] == off["uniformBucketLevelAccess"] == {"enabled": False}


@pytest.mark.parametrize("path", LISTS)
@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"", "required"),
        (b"{", "parseError"),
        (b"[]", "invalid"),
        (b'{"entity": "allUsers"}', "required"),
        (b'{"role": "READER"}', "required"),
        (b'{"entity": 7, "role": "READER"}', "invalid"),
        (b'{"entity": "somebody", "role": "READER"}', "invalid"),
        (b'{"entity": "allUsers", "role": "ADMIN"}', "invalid"),
        (b'{"entity": "allUsers", "role": {}}', "invalid"),
    ],
)
def test_bad_entries_are_refused(box, path, body, reason):
    box.upload("x", b"abc")
    reply = box.request("POST", f"{box.bucket_path}/{path}", body)
    assert (reply.status, reply.reason) == (400, reason)


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("{bucket}?projection=all", b"{}", 400),
        ("{bucket}?predefinedAcl=bucketOwnerRead", b"{}", 400),
        ("{bucket}?predefinedDefaultObjectAcl=publicReadWrite", b"{}", 400),
        ("{bucket}", b'{"acl": {"allUsers": "OWNER"}}', 400),
        ("{bucket}", b'{"defaultObjectAcl": "private"}', 400),
        (
            "{bucket}?predefinedAcl=private",
            b'{"acl": [{"entity":"allUsers","role":"READER"}]}',
            409,
        ),
        ("{objects}/x?predefinedAcl=public", b"{}", 400),
        ("{objects}/x", b'{"acl": {"allUsers": "OWNER"}}', 400),
        ("{objects}/x", b'{"acl": [[]]}', 400),
        ("{objects}/nothing", b'{"acl": []}', 404),
        ("{bucket}-gone", b'{"acl": []}', 404),
    ],
)
def test_bad_patches_change_nothing(box, path, body, status):
    box.upload("x", b"abc")
    where = path.format(bucket=box.bucket_path, objects=box.objects)
    assert box.request("PATCH", where, body).status == status
    assert box.request("GET", f"{box.objects}/x").json["metageneration"] == "1"


@pytest.mark.parametrize("path", [*LISTS, "o/x/iam"])
def test_a_bucket_that_is_gone_has_no_lists(box, path):
    for where in (f"{box.bucket_path}-gone/{path}", f"{box.bucket_path}/o/nothing/acl"):
        reply = box.request("GET", where)
        assert (reply.status, reply.reason) == (404, "notFound")


def test_a_bad_upload_leaves_nothing(box):
    body = (
        b'--B\r\nContent-Type: application/json\r\n\r\n{"name": "x", "acl": [{"entity": "nobody",'
        b' "role": "READER"}]}\r\n--B\r\nContent-Type: text/plain\r\n\r\nabc\r\n--B--'
    )
    kind = "multipart/related; boundary=B"
    reply = box.request("POST", f"{box.uploads}?uploadType=multipart", body, Content_Type=kind)
    assert (reply.status, reply.reason) == (400, "invalid")
    assert box.request("GET", f"{box.objects}/x").status == 404


def test_a_failure_can_be_asked_for_by_the_name_of_the_method(box):
    asked = {"instructions": {"storage.object_acl.list": ["return-503"]}}
    test_id = box.request("POST", "/retry_test", json.dumps(asked).encode()).json["id"]
    box.upload("x", b"abc")
    url = f"{box.objects}/x/acl"
    assert box.request("GET", url, x_retry_test_id=test_id).status == 503
    assert box.request("GET", url, x_retry_test_id=test_id).status == 200


def test_lists_survive_a_kill(killable):
    bucket = killable.start().client().create_bucket("box")
    blob = bucket.blob("x")
    blob.upload_from_string(b"abc")
    blob.make_public()
    bucket.default_object_acl.save_predefined("publicRead")
    bucket.acl.user("ann@example.com").grant_write()
    bucket.acl.save()
    killable.kill()
    seen = killable.start().client().bucket("box")
    assert roles(seen.blob("x").acl)["allUsers"] == "READER"
    assert roles(seen.default_object_acl) == {"allUsers": "READER"}
    assert roles(seen.acl)["user-ann@example.com"] == "WRITER"
