"""A bucket in memory with the rules of generations, for what is tested without a wire."""

import itertools
from datetime import UTC, datetime, timedelta

import google_crc32c

from tpuctl.errors import NotFoundError, PreconditionError
from tpuctl.store.gcs.bulk import BucketFacts, ObjectInfo


class MemoryBucket:
    """What the copies need of `tpuctl.store.gcs.bulk.Bulk`; every call can be watched or broken."""

    url = "gs://box"

    def __init__(self, *, deletes_are_free=True):
        self.bodies = {}
        self.calls = []
        self.before = {}
        """Call name -> function of its first argument, run before each such call."""
        self.once = {}
        """The same, before the next such call alone."""
        self._numbers = itertools.count(1)
        self._facts = BucketFacts("US", "STANDARD", deletes_are_free)

    def put(self, key, data):
        generation = next(self._numbers)
        self.bodies[key] = (generation, data)
        return generation

    def pass_by(self, seconds):
        """Let time pass: a generation is a second."""
        self._numbers = itertools.count(next(self._numbers) + seconds)

    def body(self, key):
        return self.bodies[key][1]

    def list(self, prefix=""):
        self._called("list", prefix)
        there = dict(self.bodies)  # other threads go on
        return iter([_listed(key, *there[key]) for key in sorted(there) if key.startswith(prefix)])

    def head(self, key):
        self._called("head", key)
        found = self.bodies.get(key)
        return None if found is None else _listed(key, *found)

    def upload(self, key, pieces, size_bytes, crc32c, *, generation):
        self._called("upload", key)
        data = b"".join(pieces())
        assert (len(data), google_crc32c.value(data)) == (size_bytes, crc32c)
        self._check(key, generation)
        return _listed(key, self.put(key, data), data)

    def upload_resumable(self, key, file, *, generation):
        self._called("upload_resumable", key)
        data = file.read()
        self._check(key, generation)
        return self.put(key, data)

    def compose(self, key, sources, crc32c, *, generation):
        self._called("compose", key)
        assert 1 <= len(sources) <= 32
        for source in sources:
            if self.bodies.get(source.key, (0,))[0] != source.generation:
                raise NotFoundError(f"no {source.key}")
        self._check(key, generation)
        data = b"".join(self.body(source.key) for source in sources)
        assert google_crc32c.value(data) == crc32c
        return self.put(key, data)

    def download(self, key, generation, start, end, write):
        self._called("download", key)
        if self.bodies.get(key, (0,))[0] != generation:
            raise NotFoundError(f"no {key}")
        write(self.body(key)[start:end])

    def delete(self, key, generation):
        self._called("delete", key)
        if key not in self.bodies:
            return False
        self._check(key, generation)
        del self.bodies[key]
        return True

    def facts(self):
        return self._facts

    def sent(self, name="upload"):
        return [key for called, key in self.calls if called == name]

    def _called(self, name, key):
        self.calls.append((name, key))
        for hook in (self.before.get(name), self.once.pop(name, None)):
            if hook is not None:
                hook(key)

    def _check(self, key, generation):
        if self.bodies.get(key, (0,))[0] != generation:
            raise PreconditionError(f"{key} is another one")


def _listed(key, generation, data):
    updated = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=generation)
    return ObjectInfo(key, len(data), generation, google_crc32c.value(data), updated.isoformat())
