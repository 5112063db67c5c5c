"""Speaking the XML API: what is sent, and what comes back, as plain values."""

import hashlib
from xml.etree import ElementTree


def texts(reply, path):
    """The texts of the elements at a path, whatever their namespace."""
    root = ElementTree.fromstring(reply.body)
    return [
        found.text or "" for found in root.iterfind("/".join(f"{{*}}{p}" for p in path.split("/")))
    ]


def code(reply):
    """Status and code of a refusal."""
    assert reply.headers["Content-Type"] == "application/xml; charset=UTF-8"
    root = ElementTree.fromstring(reply.body)
    assert root.tag == "Error"
    assert root.find("Message").text
    return reply.status, root.find("Code").text


def put_object(xml, path, data=b"abc", **headers):
    reply = xml.request("PUT", path, data, **headers)
    assert reply.status == 200, reply.body
    return reply


def start(xml, name, **headers):
    """Begin an upload; its path with the id, to which a part number may be added."""
    reply = xml.request("POST", f"/box/{name}?uploads", **headers)
    assert (reply.status, texts(reply, "Bucket"), texts(reply, "Key")) == (200, ["box"], [name])
    return f"/box/{name}?uploadId={texts(reply, 'UploadId')[0]}"


def put_part(xml, upload, number, data):
    """Send a part; its ETag."""
    reply = xml.request("PUT", f"{upload}&partNumber={number}", data)
    assert reply.status == 200, reply.body
    assert reply.headers["ETag"] == f'"{hashlib.md5(data).hexdigest()}"'
    return reply.headers["ETag"]


def document(*parts):
    """What completes an upload of parts, each a number and an ETag."""
    rows = (f"<Part><PartNumber>{n}</PartNumber><ETag>{etag}</ETag></Part>" for n, etag in parts)
    return f"<CompleteMultipartUpload>{''.join(rows)}</CompleteMultipartUpload>".encode()


def complete(xml, upload, *parts):
    return xml.request("POST", upload, document(*parts))


def kept_files(xml):
    """The inode of every file of a body."""
    return {path.stat().st_ino for path in (xml.directory / "storage/objects").glob("*/*")}
