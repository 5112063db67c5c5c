"""A store of objects with one bucket, `box`, and a clock in the test's hand."""

import pytest

from localsim.clock import Clock
from localsim.rules.objects.listing import ListQuery
from localsim.rules.objects.storage_model import (
    NO_PRECONDITIONS,
    Hashes,
    NewObject,
    ObjectKey,
    Preconditions,
    StorageError,
)
from localsim.rules.objects.store import ObjectStore

NOW_S = 1_786_400_000.0


class ObjectRig:
    """Objects written, read and listed by their names alone."""

    def __init__(self, directory):
        self.clock = Clock(manual_start_s=NOW_S)
        self.store = ObjectStore(directory, self.clock)
        self.store.buckets.create("p", "box", {})

    def put(self, name, data=b"", *, bucket="box", properties=None, **preconditions):
        incoming = self.store.bodies.receive()
        incoming.write(data)
        new = NewObject(bucket, name, properties or {}, Preconditions(**preconditions))
        return self.store.publish(new, self.store.bodies.seal(incoming, Hashes()))

    def get(self, name, generation=None, *, bucket="box"):
        return self.store.get(ObjectKey(bucket, name, generation))

    def read(self, name, generation=None, *, bucket="box"):
        with self.store.open(ObjectKey(bucket, name, generation)) as found:
            return found.read()

    def delete(self, name, generation=None, **preconditions):
        self.store.delete(ObjectKey("box", name, generation), Preconditions(**preconditions))

    def patch(self, name, change, generation=None, **preconditions):
        key = ObjectKey("box", name, generation)
        return self.store.patch(key, change, Preconditions(**preconditions))

    def copy(self, source, target, *, properties=None, bucket="box", **preconditions):
        new = NewObject(bucket, target, properties or {}, Preconditions(**preconditions))
        return self.store.copy(
            ObjectKey("box", source), NO_PRECONDITIONS, new, keeps_metadata=properties is None
        )

    def names(self, bucket="box", **query):
        return [stored.name for stored in self.store.list(bucket, ListQuery(**query)).items]


def refusal(call, *args, **kwargs):
    """Code, reason and message with which the call is refused."""
    with pytest.raises(StorageError) as error:
        call(*args, **kwargs)
    return error.value.code, error.value.reason, error.value.message


def refusal_code(call, *args, **kwargs):
    """The HTTP status with which the call is refused."""
    return refusal(call, *args, **kwargs)[0]
