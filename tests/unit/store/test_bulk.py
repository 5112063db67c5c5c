"""A bucket for copies in bulk, on a real socket whose answers the test can lose or cut."""

import io

import google_crc32c
import pytest
import requests

from tpuctl.errors import (
    IntegrityError,
    NotFoundError,
    PermissionDeniedError,
    PreconditionError,
    UsageError,
)
from tpuctl.store.gcs import bulk
from tpuctl.store.gcs.json_api import StorageSession

pytest_plugins = ("unit.store.served_bucket",)


class Lossy(requests.adapters.HTTPAdapter):
    """Passes requests on, and does to the answers what the test says."""

    def __init__(self):
        super().__init__()
        self.sent = []
        self.reply = lambda request, response: response
        self.ask = lambda request: None

    def send(self, request, **arguments):
        self.sent.append(request)
        self.ask(request)
        return self.reply(request, super().send(request, **arguments))


@pytest.fixture
def lossy():
    return Lossy()


@pytest.fixture
def box(served, new_bucket, lossy):
    """A new bucket, and a client whose answers `lossy` can lose."""
    name, client = new_bucket()
    session = requests.Session()
    session.mount("http://", lossy)
    box = bulk.BulkBucket(name, StorageSession(session, served.url))
    box.client = client
    yield box
    session.close()


def put(box, key, data, generation=0):
    value = google_crc32c.value(data)
    return box.upload(key, lambda: [data], len(data), value, generation=generation).generation


def get(box, key, generation, start, end):
    pieces = []
    box.download(key, generation, start, end, pieces.append)
    return b"".join(pieces)


def lost(response):
    response.close()
    raise requests.ConnectionError("reset by peer")


@pytest.mark.parametrize("data", [b"", b"1", bytes(range(256)) * 1000])
def test_what_is_sent_is_there(box, data):
    generation = put(box, "a b/\u00e9?#%", data)
    (found,) = box.list()
    assert found == box.head("a b/\u00e9?#%")
    assert (found.generation, found.size_bytes) == (generation, len(data))
    assert found.crc32c == google_crc32c.value(data)
    assert get(box, "a b/\u00e9?#%", generation, 0, len(data)) == data


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ("runs/result.json", "application/json"),
        ("picture.png", "image/png"),
        ("set.tar.gz", "application/octet-stream"),
        ("data:text/html,x", "application/octet-stream"),
        ("shard-00001", "application/octet-stream"),
    ],
)
def test_an_object_is_said_to_hold_what_its_name_says(box, key, expected):
    bucket = box.client.bucket(box.url.removeprefix("gs://"))
    generation = put(box, key, b"1")
    assert bucket.get_blob(key).content_type == expected
    box.compose(key, [box.head(key)], google_crc32c.value(b"1"), generation=generation)
    assert bucket.get_blob(key).content_type == expected


def test_a_write_names_what_it_replaces(box):
    first = put(box, "a", b"1")
    with pytest.raises(PreconditionError):
        put(box, "a", b"2")
    second = put(box, "a", b"2", first)
    assert get(box, "a", second, 0, 1) == b"2"


def test_bytes_that_are_not_what_was_announced_are_refused(box):
    with pytest.raises(UsageError):
        box.upload("a", lambda: [b"other"], 5, google_crc32c.value(b"these"), generation=0)
    assert box.head("a") is None


def test_a_write_whose_answer_was_lost_is_known_to_have_succeeded(box, lossy):
    answers = iter([lost])
    lossy.reply = lambda request, response: next(answers, lambda found: found)(response)
    generation = put(box, "a", b"1")
    assert box.head("a").generation == generation
    assert [request.method for request in lossy.sent][:3] == ["POST", "POST", "GET"]


def test_a_large_file_is_sent_on_from_what_the_service_has(box, lossy):
    data = bytes(range(256)) * 40_000
    failures = ["before", "after"]

    def failing(request, response):
        if request.method == "PUT" and "*" not in request.headers["Content-Range"] and failures:
            failures.pop()
            lost(response)
        return response

    lossy.reply = failing
    entry = box.upload_resumable("a", io.BytesIO(data), generation=0)
    assert entry == box.head("a")
    assert get(box, "a", entry.generation, 0, len(data)) == data
    with pytest.raises(PreconditionError):
        box.upload_resumable("a", io.BytesIO(data), generation=0)


def sent_ranges(lossy):
    return [put.headers["Content-Range"] for put in lossy.sent if put.method == "PUT"]


LARGE = bytes(range(256)) * 40_000
STORED = 3 * 2**20


def test_an_upload_of_which_a_part_was_stored_goes_on_with_the_next_byte(box, lossy):
    def keep_a_part(request):
        if request.headers.get("Content-Range") == f"bytes 0-{len(LARGE) - 1}/{len(LARGE)}":
            request.body = LARGE[:STORED]
            request.headers["Content-Length"] = str(STORED)
            request.headers["Content-Range"] = f"bytes 0-{STORED - 1}/*"

    lossy.ask = keep_a_part
    entry = box.upload_resumable("a", io.BytesIO(LARGE), generation=0)
    assert get(box, "a", entry.generation, 0, len(LARGE)) == LARGE
    assert sent_ranges(lossy) == [
        f"bytes 0-{STORED - 1}/*",
        f"bytes {STORED}-{len(LARGE) - 1}/{len(LARGE)}",
    ]


@pytest.mark.parametrize(
    ("ranges", "message"),
    [
        (["bytes=0-99999999"], "'bytes=0-99999999' of 10240000 bytes"),
        (["bytes=5-10"], "'bytes=5-10' of 10240000 bytes"),
        (["bytes=0-262143", "bytes=0-99"], "100 bytes after 262144"),
    ],
)
def test_an_illegal_range_ends_an_upload_and_leaves_no_object(box, lossy, ranges, message):
    answers = iter(ranges)

    def claim(request, response):
        if request.method == "PUT":
            response.status_code, response.headers["Range"] = 308, next(answers)
        return response

    def withhold(request):
        if request.method == "PUT":
            request.body, request.headers["Content-Length"] = b"", "0"
            request.headers["Content-Range"] = f"bytes */{len(LARGE)}"

    lossy.ask, lossy.reply = withhold, claim
    with pytest.raises(IntegrityError, match=message):
        box.upload_resumable("a", io.BytesIO(LARGE), generation=0)
    assert box.head("a") is None


def test_an_upload_that_the_service_forgot_begins_anew(box, lossy):
    gone = [410, 404]

    def forget(request, response):
        if request.method == "PUT" and gone:
            response.close()
            response.status_code = gone.pop()
        return response

    def withhold(request):
        if request.method == "PUT" and gone:
            request.body, request.headers["Content-Length"] = b"", "0"
            request.headers["Content-Range"] = f"bytes */{len(LARGE)}"

    lossy.ask, lossy.reply = withhold, forget
    entry = box.upload_resumable("a", io.BytesIO(LARGE), generation=0)
    assert get(box, "a", entry.generation, 0, len(LARGE)) == LARGE
    assert [request.method for request in lossy.sent].count("POST") == 3


def test_a_file_that_becomes_shorter_is_not_sent(box):
    class Shrinking(io.BytesIO):
        def seek(self, *where):
            if seen:
                self.truncate(100)
            seen.append(where)
            return super().seek(*where)

    seen = []
    with pytest.raises(IntegrityError, match="shorter"):
        box.upload_resumable("a", Shrinking(bytes(9 * 2**20)), generation=0)


def test_a_download_goes_on_where_it_was_cut_off(box, lossy):
    data = bytes(range(256)) * 40_000
    generation = put(box, "a", data)

    def cut(request, response):
        if len([one for one in lossy.sent if one.method == "GET"]) == 1:
            whole = response.raw.read
            pieces = iter([whole(3_000_000)])
            response.raw.read = lambda _: next(pieces, b"")
        return response

    lossy.reply = cut
    assert get(box, "a", generation, 100, len(data)) == data[100:]
    ranges = [one.headers["Range"] for one in lossy.sent if one.method == "GET"]
    assert ranges == ["bytes=100-10239999", "bytes=3000100-10239999"]


def test_a_generation_that_is_gone_is_not_found(box):
    first = put(box, "a", b"1")
    put(box, "a", b"2", first)
    with pytest.raises(NotFoundError):
        get(box, "a", first, 0, 1)


def test_objects_are_joined(box):
    for number in range(3):
        put(box, f"part/{number}", bytes([number]) * 10)
    parts = list(box.list("part/"))
    whole = b"".join(bytes([number]) * 10 for number in range(3))
    generation = box.compose("whole", parts, google_crc32c.value(whole), generation=0)
    assert get(box, "whole", generation, 0, 30) == whole
    with pytest.raises(PreconditionError):
        box.compose("whole", parts, google_crc32c.value(whole), generation=0)
    box.delete("part/1", parts[1].generation)
    with pytest.raises((NotFoundError, PreconditionError)):
        box.compose("again", parts, google_crc32c.value(whole), generation=0)


def test_a_deletion_names_its_generation(box):
    first = put(box, "a", b"1")
    put(box, "a", b"2", first)
    with pytest.raises(PreconditionError):
        box.delete("a", first)
    assert box.delete("a", box.head("a").generation) is True
    assert box.delete("a", first) is False


def test_pages_are_followed_to_the_end(box, lossy):
    for number in range(5):
        put(box, f"{number}", b"")
    lossy.sent.clear()
    session = box._session.session
    send = session.request
    session.request = lambda *words, params=None, **more: send(
        *words, params=params and params | {"maxResults": "2"}, **more
    )
    assert [found.key for found in box.list()] == ["0", "1", "2", "3", "4"]
    assert len(lossy.sent) == 3


def test_a_list_that_goes_back_is_not_believed(box, monkeypatch):
    put(box, "a", b"")
    (found,) = box.list()
    monkeypatch.setattr(box, "_pages", lambda _: iter([[found], [found]]))
    with pytest.raises(IntegrityError, match="not in order"):
        list(box.list())


@pytest.mark.parametrize(
    ("status", "kind", "attempts"),
    [(403, PermissionDeniedError, 1), (412, PreconditionError, 1), (503, PermissionDeniedError, 2)],
)
def test_only_what_may_pass_is_tried_again(box, lossy, status, kind, attempts):
    def refused(request, response):
        response.status_code = status if len(lossy.sent) == 1 else 403
        return response

    lossy.reply = refused
    with pytest.raises(kind):
        list(box.list())
    assert len(lossy.sent) == attempts


def test_a_bucket_that_is_not_there_is_not_an_object_that_is_not_there(served, lossy):
    session = requests.Session()
    nowhere = bulk.BulkBucket("nowhere", StorageSession(session, served.url))
    with pytest.raises(NotFoundError) as raised:
        nowhere.head("a")
    assert raised.value.hint.endswith("gcloud storage buckets create gs://BUCKET")
    session.close()


def test_the_facts_of_a_bucket(box):
    facts = box.facts()
    assert (facts.storage_class, facts.deletes_are_free) == ("STANDARD", True)


def test_an_object_is_copied_by_the_service_in_as_many_calls_as_it_takes(box, new_bucket, lossy):
    name, client = new_bucket()
    body = bytes(3 * 2**20)
    blob = client.bucket(name).blob("a b/ü")
    blob.upload_from_string(body)
    other = bulk.BulkBucket(name, box._session)
    (source,) = other.list()
    made = box.rewrite("copied/ü", name, source, generation=0)
    assert (made.key, made.size_bytes, made.crc32c) == ("copied/ü", len(body), source.crc32c)
    assert get(box, "copied/ü", made.generation, 0, len(body)) == body
    assert not [each for each in lossy.sent if "alt=media" in each.url and "a%20b" in each.url]
    with pytest.raises(PreconditionError):
        box.rewrite("copied/ü", name, source, generation=0)
    with pytest.raises(NotFoundError):
        box.rewrite("gone", name, source._replace(generation=1), generation=0)


def test_a_copy_whose_answer_is_lost_is_ours_and_one_that_stands_still_ends(box, lossy):
    put(box, "from", b"abc")
    (source,) = box.list()
    lost = []

    def lose_once(request, response):
        if "rewriteTo" in request.url and not lost:
            lost.append(response.content)
            raise requests.ConnectionError("reset by peer")
        return response

    lossy.reply = lose_once
    made = box.rewrite("to", box.name, source, generation=0)
    assert (made.crc32c, len(lost)) == (source.crc32c, 1)

    def stand_still(request, response):
        if "rewriteTo" in request.url:
            response.status_code = 200
            response._content = b'{"done":false,"totalBytesRewritten":"1","rewriteToken":"t"}'
        return response

    lossy.reply = stand_still
    with pytest.raises(IntegrityError, match="does not copy any more"):
        box.rewrite("to", box.name, source, generation=made.generation)


KMS = "projects/p/locations/us/keyRings/r/cryptoKeys/k"


def test_a_list_has_the_checksums_that_google_leaves_out_of_lists(box, lossy):
    """Of objects under a key of Cloud KMS each is asked for; of those of a customer's none."""
    put(box, "plain", b"plain")
    bucket = box.client.bucket(box.name)
    bucket.blob("kms", kms_key_name=KMS).upload_from_string(b"kms")
    bucket.blob("sealed", encryption_key=bytes(32)).upload_from_string(b"sealed")
    lossy.sent.clear()
    assert {found.key: found.crc32c for found in box.list()} == {
        "kms": google_crc32c.value(b"kms"),
        "plain": google_crc32c.value(b"plain"),
        "sealed": None,
    }
    assert len(lossy.sent) == 2


def test_what_is_replaced_while_it_is_listed_has_no_checksum(box, lossy):
    bucket = box.client.bucket(box.name)
    bucket.blob("kms", kms_key_name=KMS).upload_from_string(b"kms")

    def replace(request):
        if "/o/kms?" in request.url:
            bucket.blob("kms", kms_key_name=KMS).upload_from_string(b"other")

    lossy.ask = replace
    assert [found.crc32c for found in box.list()] == [None]
