"""Writers of a served bucket that go on until it dies, and remember what they were told.

Every writer has names of its own, so what must be true after the death follows from the answers: an
acknowledged change is there, an unanswered one is there or not, and nothing else is.
"""

import base64
import http.client
import json
import os
import random
import threading
from dataclasses import dataclass, field
from urllib.parse import urlencode, urlsplit

import google_crc32c

BUCKET = "local-bucket"
NAMES = 6
"""So many names each writer has, and so often it meets what is there already."""
BLOCK = os.urandom(8 * 1024 * 1024)
CHUNK_BYTES = 256 * 1024
SMALL_BYTES = 150_000
"""Some of these are rows of the database, and some are files."""
LARGE_BYTES = 3_000_000
MOST_COMPOSED_BYTES = 6_000_000

Pieces = tuple[tuple[int, int], ...]
"""A content: slices of the block."""


class ServerGoneError(Exception):
    """It has not answered."""


class WrongAnswerError(Exception):
    """It has answered what cannot be, after what it had said before."""


@dataclass(frozen=True)
class Version:
    """An object as its writer knows it."""

    pieces: Pieces
    generation: int = 0

    @property
    def data(self) -> bytes:
        return b"".join(BLOCK[start:end] for start, end in self.pieces)


@dataclass
class Session:
    """A resumable upload that has not been finished."""

    name: str
    pieces: Pieces
    path: str
    received_bytes: int = 0
    """As far as was acknowledged."""


@dataclass
class Writer:
    """One client, and what it was told."""

    number: int
    draws: random.Random
    known: dict[str, Version] = field(default_factory=dict)
    unanswered: dict[str, Version | None] = field(default_factory=dict)
    """What may have become of a name as well; None: it may be gone."""
    session: Session | None = None
    acknowledged: int = 0

    def run(self, url: str) -> None:
        """Change things until the server does not answer."""
        self._connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=30)
        changes = (self.write_small, self.write_small, self.write_large, self.resume, self.compose)
        try:
            if self.session is not None:
                self.go_on()
            while True:
                name = f"{self.number}/{self.draws.randrange(NAMES)}"
                change = self.draws.choice((*changes, self.delete))
                change(name)
        except ServerGoneError:
            pass
        finally:
            self._connection.close()

    def write_small(self, name: str) -> None:
        self._write(name, self._drawn(SMALL_BYTES))

    def write_large(self, name: str) -> None:
        self._write(name, self._drawn(LARGE_BYTES))

    def resume(self, name: str) -> None:
        query = {"uploadType": "resumable", "name": name, **self._condition(name)}
        headers, _ = self._call("POST", f"/upload/storage/v1/b/{BUCKET}/o", query)
        location = urlsplit(headers["Location"])
        path = f"{location.path}?{location.query}"
        self.session = Session(name, self._drawn(LARGE_BYTES), path)
        self._send_rest(self.session)

    def go_on(self) -> None:
        """Finish the session of an earlier life, after a look at how far it has come."""
        session = self.session
        total_bytes = sum(end - start for start, end in session.pieces)
        self.unanswered[session.name] = Version(session.pieces)
        headers, resource = self._put(session, b"", f"bytes */{total_bytes}")
        if resource is not None:
            return self._finished(session, resource)
        last = headers.get("Range", "").removeprefix("bytes=0-")
        received_bytes = int(last) + 1 if last else 0
        if received_bytes < session.received_bytes:
            raise WrongAnswerError(f"a session has lost bytes of {session.name}")
        session.received_bytes = received_bytes
        return self._send_rest(session)

    def compose(self, name: str) -> None:
        sources = [found for found in self.known if found != name][:2]
        pieces = tuple(piece for source in sources for piece in self.known[source].pieces)
        if not sources or sum(end - start for start, end in pieces) > MOST_COMPOSED_BYTES:
            return
        body = [
            {"name": source, "generation": str(self.known[source].generation)} for source in sources
        ]
        self.unanswered[name] = Version(pieces)
        path = f"/storage/v1/b/{BUCKET}/o/{name.replace('/', '%2F')}/compose"
        document = json.dumps({"sourceObjects": body}).encode()
        _, resource = self._call("POST", path, self._condition(name), document)
        self._acknowledge(name, pieces, resource)

    def delete(self, name: str) -> None:
        if name not in self.known:
            return
        self.unanswered[name] = None
        path = f"/storage/v1/b/{BUCKET}/o/{name.replace('/', '%2F')}"
        self._call("DELETE", path, self._condition(name))
        del self.known[name], self.unanswered[name]
        self.acknowledged += 1

    def _write(self, name: str, pieces: Pieces) -> None:
        version = self.unanswered[name] = Version(pieces)
        query = {"uploadType": "media", "name": name, **self._condition(name)}
        path = f"/upload/storage/v1/b/{BUCKET}/o"
        _, resource = self._call("POST", path, query, version.data)
        self._acknowledge(name, pieces, resource)

    def _send_rest(self, session: Session) -> None:
        data = Version(session.pieces).data
        while True:
            start = session.received_bytes
            end = min(start + 4 * CHUNK_BYTES, len(data))
            if end == len(data):
                self.unanswered[session.name] = Version(session.pieces)
            span = f"bytes {start}-{end - 1}/{len(data)}"
            _, resource = self._put(session, data[start:end], span)
            if resource is not None:
                return self._finished(session, resource)
            session.received_bytes = end

    def _put(self, session, data, span):
        return self._call("PUT", session.path, {}, data, {"Content-Range": span})

    def _finished(self, session: Session, resource) -> None:
        self.session = None
        self._acknowledge(session.name, session.pieces, resource)

    def _acknowledge(self, name: str, pieces: Pieces, resource) -> None:
        self.known[name] = Version(pieces, int(resource["generation"]))
        self.unanswered.pop(name, None)
        self.acknowledged += 1

    def _condition(self, name: str) -> dict[str, str]:
        known = self.known.get(name)
        return {"ifGenerationMatch": str(known.generation if known else 0)}

    def _drawn(self, most_bytes: int) -> Pieces:
        size_bytes = self.draws.randint(1, most_bytes)
        start = self.draws.randrange(len(BLOCK) - size_bytes)
        return ((start, start + size_bytes),)

    def _call(self, method, path, query, body=b"", headers=None):
        """The headers and the resource of a reply; no resource of a 308."""
        target = f"{path}?{urlencode(query)}" if query else path
        try:
            self._connection.request(method, target, body, headers or {})
            reply = self._connection.getresponse()
            data = reply.read()
        except (OSError, http.client.HTTPException) as error:
            raise ServerGoneError from error
        if reply.status not in (200, 204, 308):
            raise WrongAnswerError(f"{method} {target}: {reply.status} {data[:300]!r}")
        return reply.headers, json.loads(data) if reply.status == 200 and data else None


def run_until_death(writers, url, die):
    """Let all of them write at the same time until `die` returns; what they raise is raised."""
    failures = []

    def run(writer):
        try:
            writer.run(url)
        except WrongAnswerError as error:
            failures.append(error)

    threads = [threading.Thread(target=run, args=(writer,)) for writer in writers]
    for thread in threads:
        thread.start()
    die()
    for thread in threads:
        thread.join()
    return failures


def stored_objects(url):
    """Name -> generation, checksum and bytes of every object of the bucket."""
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=30)
    try:
        connection.request("GET", f"/storage/v1/b/{BUCKET}/o")
        items = json.loads(connection.getresponse().read()).get("items", [])
        found = {}
        for item in items:
            connection.request(
                "GET", urlsplit(item["mediaLink"])._replace(scheme="", netloc="").geturl()
            )
            data = connection.getresponse().read()
            found[item["name"]] = (int(item["generation"]), item["crc32c"], data)
        return found
    finally:
        connection.close()


def crc32c(data: bytes) -> str:
    return base64.b64encode(google_crc32c.Checksum(data).digest()).decode()
