"""What a recording keeps, and what it must not."""

import json

import pytest

from tpuctl.api import cassette
from tpuctl.errors import ConflictError, DamagedStateError

NODE = {
    "name": "projects/secret-lab/locations/us-west4-a/nodes/n1",
    "description": "for the paper nobody knows of",
    "labels": {"team": "moonshot"},
    "metadata": {"ssh-keys": "ann:ssh-ed25519 AAAA ann@secret-lab.com"},
    "serviceAccount": {"email": "trainer@secret-lab.iam.gserviceaccount.com"},
    "networkEndpoints": [{"ipAddress": "10.128.0.7", "accessConfig": {"externalIp": "34.118.7.9"}}],
    "queuedResource": "projects/987654321/locations/us-west4-a/queuedResources/q1",
}


def test_a_node_keeps_its_shape_and_loses_what_is_private():
    assert cassette.redact(NODE) == {
        "name": "projects/recorded-project/locations/us-west4-a/nodes/n1",
        "description": "redacted",
        "labels": {"team": "redacted"},
        "metadata": {"ssh-keys": "redacted"},
        "serviceAccount": {"email": "redacted@example.com"},
        "networkEndpoints": [
            {"ipAddress": "10.128.0.7", "accessConfig": {"externalIp": "203.0.113.1"}}
        ],
        "queuedResource": "projects/123456789012/locations/us-west4-a/queuedResources/q1",
    }


def test_the_metadata_of_an_operation_is_no_map_of_secrets():
    operation = {"metadata": {"@type": "type.googleapis.com/X", "verb": "create"}}
    assert cassette.redact(operation) == operation


def test_names_of_fields_are_hidden_too():
    assert cassette.redact({"ann@secret-lab.com": 1}) == {"redacted@example.com": 1}


def test_guest_attributes_keep_host_keys_and_hide_the_rest():
    items = [
        {"namespace": "hostkeys", "key": "ssh-ed25519", "value": "AAAA"},
        {"namespace": "mine", "key": "token", "value": "hunter2"},
    ]
    hidden = [items[0], {**items[1], "value": "redacted"}]
    assert cassette.redact({"items": items}) == {"items": hidden}


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("service-987@cloud-tpu.iam.gserviceaccount.com",) * 2,
        ("987-compute@developer.gserviceaccount.com",) * 2,
        ("GET /v2/x?key=AIzaSECRET&alt=json", "GET /v2/x?key=redacted&alt=json"),
        ("/v2/x?pageSize=5&access_token=ya29.S", "/v2/x?pageSize=5&access_token=redacted"),
        ("/v2/x?k%65y=S&$key=S", "/v2/x?k%65y=redacted&$key=redacted"),
        ("/v2/x?nodeId=ann%40secret-lab.com", "/v2/x?nodeId=redacted@example.com"),
        ("denied on resource project secret-lab.", "denied on resource project recorded-project."),
        ("never used in project 555 before", "never used in project 987 before"),
        ("refused: ya29.a0-S_x and eyJhbGc.eyJpc3M.c2ln", "refused: redacted and redacted"),
        ("runtime v2-alpha-tpuv5-lite", "runtime v2-alpha-tpuv5-lite"),
    ],
)
def test_texts(text, kept):
    assert cassette.redact(text).replace("123456789012", "987") == kept


def test_the_project_is_hidden_in_sentences_too(tmp_path):
    tape = cassette.create(tmp_path / "c.jsonl", 1000.0, "secret-lab")
    error = {"code": 7, "message": "Permission denied on resource project secret-lab."}
    tape.add("grpc /google.cloud.tpu.v2.Tpu/ListNodes", 1001.5, {"request": {}, "error": error})
    header, line = map(json.loads, tape.path.read_text().splitlines())
    assert header == {"cassette": 1, "api": "tpu.googleapis.com", "started_s": 1000.0}
    assert line["t_s"] == 1.5
    assert line["error"]["message"] == "Permission denied on resource project recorded-project."
    assert tape.path.stat().st_mode & 0o777 == 0o600


def test_a_cassette_is_never_written_over(tmp_path):
    cassette.create(tmp_path / "c.jsonl", 0.0, "p")
    with pytest.raises(ConflictError):
        cassette.create(tmp_path / "c.jsonl", 0.0, "p")


def test_another_process_goes_on_with_it(tmp_path):
    first = cassette.create(tmp_path / "c.jsonl", 5.0, "p")
    assert cassette.reopen(first.path, "p") == first


@pytest.mark.parametrize("text", ["", "{}", "nonsense", '{"cassette": 2, "started_s": 0}'])
def test_what_is_no_cassette_is_not_added_to(tmp_path, text):
    path = tmp_path / "c.jsonl"
    path.write_text(text)
    with pytest.raises(DamagedStateError):
        cassette.reopen(path, "p")
