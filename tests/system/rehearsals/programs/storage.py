"""A bucket's objects by plain HTTP, the JSON API of Cloud Storage."""

import json
import os
import time
import urllib.error
import urllib.parse
import urllib.request

HOST = os.environ.get("STORAGE_EMULATOR_HOST", "https://storage.googleapis.com")
TOKEN = "/computeMetadata/v1/instance/service-accounts/default/token"
TRANSIENT = (408, 429, 500, 502, 503, 504)
PATIENCE_S = 120


class Objects:
    """The objects below a `gs://` URL; names are relative to it."""

    def __init__(self, url):
        self.bucket, _, prefix = url.removeprefix("gs://").partition("/")
        self.prefix = prefix.rstrip("/") + "/" if prefix else ""
        self.token = ""

    def put(self, name, data):
        """Create or replace an object in one request."""
        self.ask(self.upload_path(name, "media"), data, "POST")

    def put_in_two(self, name, data, between):
        """Create an object by a resumable upload; `between` is called when half of it is sent."""
        half = len(data) // 2 // 262144 * 262144
        answer = self.send(self.upload_path(name, "resumable"), b"", "POST")
        session = answer.headers["Location"]
        head = {"Content-Range": f"bytes 0-{half - 1}/*"}
        self.send(session, data[:half], "PUT", head)
        between()
        rest = {"Content-Range": f"bytes {half}-{len(data) - 1}/{len(data)}"}
        self.send(session, data[half:], "PUT", rest)

    def get(self, name):
        """The bytes of an object; None when there is none."""
        return self.ask(f"{self.path(name)}?alt=media")

    def delete(self, name):
        """Delete an object, if it is there."""
        self.ask(self.path(name), method="DELETE")

    def names(self, below=""):
        """The names of all objects below a relative prefix, in order."""
        query = urllib.parse.urlencode({"prefix": self.prefix + below, "fields": "items(name)"})
        items = json.loads(self.ask(f"/storage/v1/b/{self.bucket}/o?{query}")).get("items", [])
        return [item["name"].removeprefix(self.prefix) for item in items]

    def path(self, name):
        """Where an object is."""
        quoted = urllib.parse.quote(self.prefix + name, safe="")
        return f"/storage/v1/b/{self.bucket}/o/{quoted}"

    def upload_path(self, name, kind):
        """Where an upload of a kind begins."""
        quoted = urllib.parse.quote(self.prefix + name, safe="")
        return f"/upload/storage/v1/b/{self.bucket}/o?uploadType={kind}&name={quoted}"

    def ask(self, path, data=None, method="GET"):
        """The body of the answer; None when there is no such object."""
        try:
            return self.send(path, data, method).read()
        except urllib.error.HTTPError as error:
            if error.code == 404:
                return None
            raise

    def send(self, path, data, method, headers=None):
        """The answer; a service that is busy or not reached is asked again, for two minutes."""
        until = time.monotonic() + PATIENCE_S
        pause_s = 0.1
        url = path if path.startswith("http") else HOST + path
        while True:
            sent = {"Content-Type": "application/octet-stream", **self.login(), **(headers or {})}
            request = urllib.request.Request(url, data, sent, method=method)
            try:
                return urllib.request.urlopen(request, timeout=30)
            except urllib.error.HTTPError as error:
                if error.code == 308:  # the part of a resumable upload is there
                    return error
                if error.code not in TRANSIENT or time.monotonic() > until:
                    raise
            except OSError:
                if time.monotonic() > until:
                    raise
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, 2.0)

    def login(self):
        """The header with the token of the worker's service account; none for an emulator."""
        if "STORAGE_EMULATOR_HOST" in os.environ:
            return {}
        if not self.token:
            url = f"http://metadata.google.internal{TOKEN}"
            request = urllib.request.Request(url, headers={"Metadata-Flavor": "Google"})
            with urllib.request.urlopen(request, timeout=10) as answer:
                self.token = json.load(answer)["access_token"]
        return {"Authorization": f"Bearer {self.token}"}
