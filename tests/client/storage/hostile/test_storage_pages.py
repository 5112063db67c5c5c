"""Web pages: let in by the CORS rules of a bucket, and by nothing else."""

import json

import pytest

pytest_plugins = ("client.storage.storage_fixtures",)

PAGE = "https://app.example"
RULE = {
    "origin": [PAGE],
    "method": ["GET", "PUT"],
    "responseHeader": ["Content-Type", "X-Goog-Meta-A"],
    "maxAgeSeconds": 60,
}


@pytest.fixture
def shared(box):
    """A bucket whose objects a page may read and write, with one object."""
    box.upload("x", b"abc")
    set_rules(box, RULE)
    return box


def set_rules(box, *rules):
    body = json.dumps({"cors": rules}).encode()
    assert box.request("PATCH", box.bucket_path, body).status == 200


def ask(box, method, path, origin=PAGE, **headers):
    return box.request(method, path, Origin=origin, Sec_Fetch_Site="cross-site", **headers)


def preflight(box, method, origin=PAGE, path=None, **headers):
    asked = {"Access_Control_Request_Method": method, **headers}
    return ask(box, "OPTIONS", path or f"/{box.name}/x", origin, **asked)


def told(reply):
    return {
        name.removeprefix("Access-Control-"): value
        for name, value in reply.headers.items()
        if name.startswith("Access-Control-")
    }


def test_a_preflight_is_answered_by_the_rule(shared):
    headers = {"Access_Control_Request_Headers": "content-type, x-other"}
    reply = preflight(shared, "PUT", **headers)
    assert (reply.status, reply.headers["Vary"]) == (200, "Origin")
    assert told(reply) == {
        "Allow-Origin": PAGE,
        "Allow-Methods": "GET,PUT",
        "Allow-Headers": "content-type",
        "Expose-Headers": "Content-Type, X-Goog-Meta-A",
        "Max-Age": "60",
    }


def test_a_page_reads_and_writes_by_both_apis(shared):
    for path in (f"/{shared.name}/x", f"{shared.objects}/x?alt=media", f"{shared.objects}/x"):
        reply = ask(shared, "GET", path)
        assert (reply.status, told(reply)["Allow-Origin"]) == (200, PAGE)
    assert told(ask(shared, "GET", f"/{shared.name}/nothing"))["Allow-Origin"] == PAGE
    assert ask(shared, "PUT", f"/{shared.name}/y", Content_Length="0").status == 200


@pytest.mark.parametrize(
    ("origin", "method", "path"),
    [
        ("https://evil.example", "GET", "/{name}/x"),
        ("null", "GET", "/{name}/x"),
        (PAGE, "DELETE", "/{name}/x"),
        (PAGE, "GET", "/nothing-here/x"),
        (PAGE, "GET", "/{name}"),
        (PAGE, "GET", "/storage/v1/b/{name}"),
        (PAGE, "GET", "/storage/v1/b/{name}/iam"),
        (PAGE, "GET", "/storage/v1/b?project=p"),
        (PAGE, "GET", "/retry_tests"),
        (PAGE, "GET", "/retry_test/x"),
    ],
)
def test_every_other_page_and_request_is_refused(shared, origin, method, path):
    path = path.format(name=shared.name)
    for reply in (
        ask(shared, method, path, origin),
        preflight(shared, method, origin, path.partition("?")[0]),
    ):
        assert (reply.status, told(reply)) == (403, {})
        assert b"web pages may not use this server" in reply.body


def test_a_star_stands_for_pages_of_this_machine(shared):
    set_rules(shared, {**RULE, "origin": ["*"]})
    for origin in ("http://localhost:3000", "http://127.0.0.1", "http://[::1]:8080"):
        assert told(ask(shared, "GET", f"/{shared.name}/x", origin))["Allow-Origin"] == origin
    for origin in (PAGE, "http://localhost.example", "http://[::1", "file://"):
        assert ask(shared, "GET", f"/{shared.name}/x", origin).status == 403


def test_a_page_at_another_host_name_is_refused_as_before(shared):
    assert ask(shared, "GET", f"/{shared.name}/x", Host="evil.example").status == 403


def test_without_rules_no_page_is_let_in(shared):
    set_rules(shared)
    assert ask(shared, "GET", f"/{shared.name}/x").status == 403
