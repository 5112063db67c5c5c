"""Signatures by HMAC keys, written down once more from the documentation: what tests send."""

import base64
import datetime
import hashlib
import hmac
from email.utils import format_datetime
from urllib.parse import quote, urlsplit

EMPTY_SHA256 = hashlib.sha256(b"").hexdigest()


def now():
    return datetime.datetime.now(datetime.UTC)


def v4_headers(key, method, url, headers=(), *, scheme="GOOG4", body=b"", moment=None, **changes):
    """The headers of a V4 request, `GOOG4-HMAC-SHA256` or `AWS4-HMAC-SHA256`."""
    access_id, secret = key
    prefix, service, end = {
        "GOOG4": ("x-goog-", "storage", "goog4_request"),
        "AWS4": ("x-amz-", "s3", "aws4_request"),
    }[scheme]
    parts = urlsplit(url)
    timestamp = (moment or now()).strftime("%Y%m%dT%H%M%SZ")
    digest = hashlib.sha256(body).hexdigest()
    sent = {**dict(headers), f"{prefix}date": timestamp, f"{prefix}content-sha256": digest}
    signed = {"host": parts.netloc, **{name.lower(): value for name, value in sent.items()}}
    names = ";".join(sorted(signed))
    lines = [f"{name}:{' '.join(signed[name].split())}" for name in sorted(signed)]
    query = "&".join(sorted(parts.query.split("&"))) if parts.query else ""
    request = "\n".join([method, parts.path, query, *lines, "", names, digest])
    scope = f"{timestamp[:8]}/auto/{service}/{end}"
    algorithm = f"{scheme}-HMAC-SHA256"
    hashed = hashlib.sha256(request.encode()).hexdigest()
    text = "\n".join([algorithm, timestamp, scope, hashed])
    derived = f"{scheme}{secret}".encode()
    for part in scope.split("/"):
        derived = hmac.digest(derived, part.encode(), "sha256")
    signature = hmac.digest(derived, text.encode(), "sha256").hex()
    credential = f"{access_id}/{scope}"
    sent["Authorization"] = changes.get(
        "authorization",
        f"{algorithm} Credential={credential}, SignedHeaders={names}, Signature={signature}",
    )
    return sent


def v2_headers(key, method, path, headers=(), *, scheme="GOOG1", moment=None):
    """The headers of a V2 request: `GOOG1` or `AWS`."""
    access_id, secret = key
    sent = {"Date": format_datetime(moment or now(), usegmt=True), **dict(headers)}
    extensions = sorted(
        f"{name.lower()}:{value}\n"
        for name, value in sent.items()
        if name.lower().startswith(("x-goog-", "x-amz-"))
    )
    fields = [method, sent.get("Content-MD5", ""), sent.get("Content-Type", ""), sent["Date"]]
    text = "\n".join(fields) + "\n" + "".join(extensions) + path
    signature = base64.b64encode(hmac.digest(secret.encode(), text.encode(), "sha1")).decode()
    return {**sent, "Authorization": f"{scheme} {access_id}:{signature}"}


def v2_query(key, method, path, expires_s):
    """The parameters of a V2 signed URL by an HMAC key."""
    access_id, secret = key
    text = f"{method}\n\n\n{expires_s}\n{path}"
    signature = base64.b64encode(hmac.digest(secret.encode(), text.encode(), "sha1")).decode()
    return f"GoogleAccessId={access_id}&Expires={expires_s}&Signature={quote(signature, safe='')}"
