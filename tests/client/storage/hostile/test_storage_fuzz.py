"""Whatever arrives at Cloud Storage gets an answer that is no failure of the server."""

import json
import random
import socket

import pytest

from client.storage.hostile_wire import healthy, status
from localsim.loopback import LOOPBACK

pytest_plugins = ("client.storage.storage_fixtures", "client.storage.xml_api.xml_fixtures")

BATCH = (
    "--B\r\nContent-Type: application/http\r\n\r\nPOST /storage/v1/b?project=p HTTP/1.1\r\n"
    'Content-Type: application/json\r\nContent-Length: 17\r\n\r\n{"name": "batch"}\r\n--B--\r\n'
)
PIECES = [
    *("storage", "v1", "b", "box", "o", "kept", "upload", "download", "resumable", "batch"),
    *("retry_test", "retry_tests", "compose", "rewriteTo", "copyTo", "moveTo", "iam", "acl"),
    *("", ".", "..", "%2e%2e", "%2F", "%00", "%ff", "~", "a b", "\u00e9", "x" * 300),
]
_BOX = "/storage/v1/b/box"
CALLS = [
    *(("GET", "/storage/v1/b"), ("POST", "/storage/v1/b"), ("GET", _BOX), ("PATCH", _BOX)),
    *(("PUT", _BOX), ("GET", f"{_BOX}/iam"), ("PUT", f"{_BOX}/iam"), ("GET", f"{_BOX}/o")),
    *((verb, f"{_BOX}/o/kept") for verb in ("GET", "PATCH", "PUT", "DELETE")),
    *(("POST", f"{_BOX}/o/kept/{to}/b/box/o/copy") for to in ("copyTo", "rewriteTo")),
    *(("POST", f"{_BOX}/o/kept/compose"), ("POST", f"{_BOX}/o/kept/moveTo/o/moved")),
    *((verb, "/upload/storage/v1/b/box/o") for verb in ("POST", "POST", "PUT", "DELETE")),
    *(("POST", f"{_BOX}/o/kept/restore"), ("POST", f"{_BOX}/o/bulkRestore")),
    *(("POST", f"{_BOX}/restore"), ("GET", f"{_BOX}/operations"), ("GET", f"{_BOX}/operations/x")),
    *(("POST", "/batch/storage/v1"), ("POST", "/retry_test"), ("GET", "/retry_tests")),
    *((verb, "/box/kept") for verb in ("GET", "HEAD", "PUT", "POST", "DELETE")),
    *(("GET", "/box"), ("HEAD", "/box"), ("GET", "/"), ("GET", f"/download{_BOX}/o/kept")),
]
QUERIES = [
    *("project=p", "uploadType=media&name=new", "uploadType=multipart&name=new", "alt=media"),
    *("uploadType=resumable&name=new", "uploads", "uploadId=x&partNumber=1", "list-type=2"),
    *(
        "generation=1",
        "softDeleted=true",
        "ifGenerationMatch=0",
        "delimiter=/",
        "versions=true",
        "matchGlob=k**",
        "maxResults=1",
    ),
]
PARAMETERS = [
    *("project", "name", "uploadType", "upload_id", "uploads", "uploadId", "partNumber", "alt"),
    *("prefix", "delimiter", "startOffset", "endOffset", "matchGlob", "pageToken", "maxResults"),
    *("versions", "fields", "generation", "ifGenerationMatch", "ifMetagenerationNotMatch"),
    *("list-type", "marker", "continuation-token", "start-after", "max-keys", "encoding-type"),
    *(
        "rewriteToken",
        "maxBytesRewrittenPerCall",
        "projection",
        "kmsKeyName",
        "destinationKmsKeyName",
        "softDeleted",
        "restoreToken",
        "copySourceAcl",
        "enableObjectRetention",
        "overrideUnlockedRetention",
        "acl",
        "prettyPrint",
    ),
]
VALUES = [
    "projects/p/locations/us/keyRings/r/cryptoKeys/k",
    *(
        "",
        "0",
        "1",
        "-1",
        "2",
        "9" * 23,
        "9" * 19,
        "media",
        "multipart",
        "resumable",
        "true",
    ),
    *("url", "json", "kept", "box", "a/b", "**", "{a,b}", "[a-", "%00", "%ff", "items(name", "p"),
]
KMS = "projects/p/locations/us/keyRings/r/cryptoKeys/k"
SEALED = (
    f"AES256\r\nX-Goog-{{0}}Encryption-Key: {'A' * 43}=\r\n"
    "X-Goog-{0}Encryption-Key-Sha256: Zmh6rfhivXdsj8GLjp+OIAiXFIVu4jOzkCpZHQ1fKSU="
)
"""All three headers of a key at once."""
HEADERS = [
    ("Range", ["bytes=0-", "bytes=-0", "bytes=5-1", "bytes=99999999999999999-", "bytes=0-1,2-3"]),
    ("Content-Range", ["bytes */*", "bytes 0-1/2", "bytes 9-1/*", "bytes x", "bytes */0"]),
    (
        "Content-Type",
        ["multipart/related; boundary=B", "multipart/mixed; boundary=", "a", "text/x"],
    ),
    ("Content-Encoding", ["gzip", "deflate", "br", "aws-chunked", "x" * 100]),
    ("Accept-Encoding", ["gzip", "gzip;q=0", "identity"]),
    ("If-Match", ["*", '"x"', ""]),
    ("If-None-Match", ["*", '"x"']),
    ("If-Modified-Since", ["x", "Mon, 01 Jan 2001 00:00:00 GMT", "Mon, 01 Jan 99999 00:00:00 GMT"]),
    ("X-Goog-Hash", ["crc32c=AAAAAA==", "md5=x", "crc32c", "=,="]),
    ("Content-MD5", ["x", "1B2M2Y8AsgTpgAmY7PhCfg=="]),
    ("X-Goog-Copy-Source", ["box/kept", "box", "/", "%ff/x", "nothing/x"]),
    *(
        (f"X-Goog-{kind}Encryption-{name}", values)
        for kind in ("", "Copy-Source-")
        for name, values in {
            "Algorithm": ["x", *(SEALED.format(kind) for _ in range(3))],
            "Key": ["A" * 43 + "=", "\u00e9", ""],
            "Key-Sha256": ["A" * 43 + "=", "\u00e9"],
        }.items()
    ),
    ("X-Goog-Encryption-Kms-Key-Name", [KMS, f"{KMS}/cryptoKeyVersions/1", "\u00e9"]),
    ("X-Goog-Meta-\u00e9", ["1"]),
    ("X-Goog-Meta-A", ["\u00e9", "x" * 4000, "\t"]),
    ("X-Goog-Project-Id", ["p", "\u00e9"]),
    ("X-Retry-Test-ID", ["x"]),
    ("X-Upload-Content-Type", ["a/b", "\u00e9"]),
    ("X-Upload-Content-Length", ["5", "-5", "x", "9" * 5000]),
    ("X-GUploader-No-308", ["yes"]),
    ("Transfer-Encoding", ["chunked", "gzip, chunked", "x"]),
    ("Expect", ["100-continue", "x"]),
]
BODIES = [
    *("", "{}", "[]", "null", "{", '"x"', "1e999", '{"name": "\\ud800"}', '{"name": null}'),
    *(
        '{"name": "box"}',
        '{"metadata": {"a": 1}}',
        '{"metadata": []}',
        '{"contentType": "\\u0000"}',
    ),
    *('{"sourceObjects": [{"name": "kept"}]}', '{"sourceObjects": 5}', '{"bindings": [5]}'),
    *('{"lifecycle": {"rule": 5}}', '{"versioning": 5}', '{"retentionPolicy": {"x": "y"}}'),
    *('{"temporaryHold": 5}', '{"customTime": "x"}', '{"labels": 7}', '{"storageClass": "X"}'),
    *(
        "<CompleteMultipartUpload/>",
        "<a>",
        "--B\r\n\r\n{}\r\n--B\r\n\r\nx\r\n--B--",
        "--B--",
        BATCH,
    ),
    *('{"instructions": {"storage.buckets.list": [5]}}', "[" * 100_000, "0\r\n\r\n", "\0" * 100),
]


OF_OBJECTS = (
    *("contentType", "contentEncoding", "cacheControl", "customTime", "metadata", "name", "acl"),
    *("temporaryHold", "eventBasedHold", "storageClass", "crc32c", "md5Hash", "retention"),
    *("kmsKeyName", "customerEncryption"),
)
OF_BUCKETS = (
    *("name", "versioning", "lifecycle", "labels", "retentionPolicy", "iamConfiguration", "cors"),
    *("location", "storageClass", "defaultEventBasedHold", "softDeletePolicy", "autoclass"),
    *("website", "logging", "billing", "encryption", "objectRetention", "rpo", "acl"),
    *("customPlacementConfig", "ipFilter"),
)
FIELDS = {
    "bulkRestore": ("matchGlobs", "softDeletedAfterTime", "createdBeforeTime", "allowOverwrite"),
    "compose": ("sourceObjects", "destination", "deleteSourceObjects", "kind"),
    "iam": ("bindings", "version", "etag", "kind"),
    "retry_test": ("instructions", "transport"),
    "b": OF_BUCKETS,
    "box": OF_BUCKETS,
}
KEYS = [
    *("role", "members", "condition", "expression", "title", "rule", "action", "type", "age"),
    *("createdBefore", "matchesPrefix", "enabled", "retentionPeriod", "isLocked", "name", "mode"),
    *("generation", "objectPreconditions", "ifGenerationMatch", "uniformBucketLevelAccess"),
    *("dataLocations", "publicNetworkSource", "allowedIpCidrRanges", "vpcNetworkSources"),
    *("terminalStorageClass", "retentionDurationSeconds", "maxAgeSeconds", "network"),
    *("storage.buckets.list", "retainUntilTime", "effectiveTime", "storageClass", "origin", ""),
]
ODD = [
    *("roles/storage.admin", "allUsers", "Delete", "SetStorageClass", "NEARLINE", "kept", "US", 0),
    *("2026-01-01", "2026-01-01T00:00:00Z", "return-503", "stall-at-256KiB", "1", "Unlocked"),
    *(None, True, 5, -1, 1e308, 10**400, "", "x", "9" * 19, "\ud800", "\0", "a\r\nb: c", [], {}),
    *([None], [[]], ["x"], {"x": "y"}, {"x": None}, {"enabled": "x"}, {"enabled": True}),
    *({"rule": [{}]}, {"rule": [{"action": {"type": "Delete"}, "condition": {"age": "x"}}]}),
    *({"retentionPeriod": "x"}, {"retentionPeriod": "9" * 19}, {"retentionPeriod": -1}),
    *([{"name": "kept"}], [{"name": 5}], [{"name": "kept", "generation": "9" * 19}], [{}] * 40),
    *([{"role": "x", "members": [5]}], {"mode": "Locked", "retainUntilTime": "x"}),
    *("2026-13-45T99:99:99Z", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59.999999999+23:59"),
    *(KMS, {"defaultKmsKeyName": KMS}, {"defaultKmsKeyName": 5}, {"restrictionMode": "x"}),
    *(
        {"googleManagedEncryptionEnforcementConfig": value}
        for value in ({"restrictionMode": "FullyRestricted"}, {"restrictionMode": []}, 5, [])
    ),
    *({"dataLocations": ["US-EAST1", "US-WEST1"]}, {"retentionDurationSeconds": 604800}),
    *({"enabled": True, "terminalStorageClass": "ARCHIVE"}, {"mode": "Disabled"}, ["::/0"]),
    *({"mode": "Enabled", "publicNetworkSource": {"allowedIpCidrRanges": ["127.0.0.0/8"]}},),
    *({"uniformBucketLevelAccess": {"enabled": 5}}, {"storage.buckets.list": ["return-999"]}),
]


def odd(choice: random.Random, depth: int = 3) -> object:
    """A value of JSON that may be right in one place and is wrong in all others."""
    if depth == 0 or choice.random() < 0.5:
        return choice.choice(ODD)
    values = [odd(choice, depth - 1) for _ in range(choice.randint(0, 3))]
    if choice.random() < 0.4:
        return values
    return {choice.choice(KEYS): value for value in values}


def random_resource(choice: random.Random, path: str) -> str:
    """A resource of some fields that are real, and of values that mostly are not."""
    fields = FIELDS.get(path.rpartition("/")[2], OF_OBJECTS)
    names = choice.sample(fields, min(len(fields), choice.randint(1, 3)))
    return json.dumps({name: odd(choice) for name in names})


def random_request(choice: random.Random, *, is_cut: bool) -> bytes:
    """A request that is right in some places and wrong in others; one that is cut lacks its end."""
    verb, path = choice.choice(CALLS)
    if choice.random() < 0.1:
        path = "/" + "/".join(choice.choices(PIECES, k=choice.randint(0, 7)))
    if choice.random() < 0.1:
        verb = choice.choice(("GET", "PUT", "POST", "DELETE", "PATCH", "HEAD", "TRACE"))
    pairs = choice.choices(QUERIES, k=choice.randint(0, 2))
    if choice.random() < 0.4:
        pairs.append(f"{choice.choice(PARAMETERS)}={choice.choice(VALUES)}")
    body = choice.choice(BODIES) if choice.random() < 0.5 else random_resource(choice, path)
    lines = [f"{verb} {path}{'?' if pairs else ''}{'&'.join(pairs)} HTTP/1.1", "Connection: close"]
    for name, values in choice.sample(HEADERS, choice.choice((0, 0, 1, 1, 2, 3))):
        lines.append(f"{name}: {choice.choice(values)}")
    length = len(body) + 5 if is_cut else len(body)
    lines.append(f"Content-Length: {length if choice.random() < 0.99 else -1}")
    return "\r\n".join([*lines, "Host: localhost:{port}", "", body]).encode()


CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


def fuzz(shut, seed, requests):
    """Send random requests; restore the object, so that there is always something to hit."""
    choice = random.Random(seed)
    for number in range(requests):
        is_cut = choice.random() < 0.02
        request = random_request(choice, is_cut=is_cut)
        request = request.replace(b"{port}", str(shut.port).encode(), 1)
        reply = answer(shut.port, request, is_cut=is_cut).removeprefix(CONTINUE)
        assert reply or is_cut or len(request) > 65_536, (seed, number, request)
        if reply:
            assert status(reply) < 500 or status(reply) == 501, (seed, number, request, reply)
            assert b"Traceback" not in reply
        if number % 50 == 0:
            again = shut.request("PUT", "/box/kept", b"kept", x_goog_if_generation_match="0")
            assert again.status in (200, 412)
            healthy(shut)


def answer(port, request, *, is_cut):
    """What comes back until the server closes; a client that is cut off may hear nothing."""
    with socket.create_connection((LOOPBACK, port), timeout=20) as connection:
        try:
            connection.sendall(request)
            if is_cut:
                connection.shutdown(socket.SHUT_WR)
            return b"".join(iter(lambda: connection.recv(65536), b""))
        except ConnectionError:  # it has refused before it had read all
            return b""


@pytest.mark.parametrize("seed", range(2))
def test_whatever_arrives_gets_an_answer(shut, seed):
    fuzz(shut, seed, 200)


@pytest.mark.soak
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("seed", range(100, 110))
def test_whatever_arrives_for_a_long_time_gets_an_answer(shut, seed):
    fuzz(shut, seed, 10_000)
