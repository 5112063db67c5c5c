"""Random requests, drawn from the descriptors of their messages; many of them are nearly right."""

from google.protobuf.descriptor import FieldDescriptor
from hypothesis import strategies as st

from client.tpu.tpu_service import ZONE

MOST_DEEP = 6

TEXTS = st.one_of(
    st.sampled_from(
        (
            "",
            "a",
            "-",
            "0",
            "default",
            "v5litepod-16",
            "v2-8",
            "v2-alpha-tpuv5-lite",
            "2x2",
            "4x4",
            "projects/demo",
            ZONE,
            "projects/demo/locations/-",
            "projects/7/locations/us-west4-a",
            f"{ZONE}/nodes/a",
            f"{ZONE}/nodes/q-0",
            f"{ZONE}/queuedResources/q",
            f"{ZONE}/operations/operation-1-2-3-4",
            f"{ZONE}/acceleratorTypes/v5litepod-16",
            f"{ZONE}/runtimeVersions/tpu-ubuntu2204-base",
            f"{ZONE}/reservations/-",
            "2027-01-15T09:00:00Z",
            "description,labels",
        )
    ),
    st.text(max_size=20),
)
INTEGERS = {
    FieldDescriptor.TYPE_INT32: st.sampled_from((0, 1, 2, 3, -1, 7, 99, 2**31 - 1, -(2**31))),
    FieldDescriptor.TYPE_INT64: st.sampled_from(
        (0, 1, -1, 10**9, 2**63 - 1, -(2**63), 1_800_000_060)
    ),
    FieldDescriptor.TYPE_ENUM: st.sampled_from((0, 1, 2, 3, 4, 7, 9, 99, 100_001, -5)),
}
SCALARS = {
    **INTEGERS,
    FieldDescriptor.TYPE_STRING: TEXTS,
    FieldDescriptor.TYPE_BYTES: st.binary(max_size=8),
    FieldDescriptor.TYPE_BOOL: st.booleans(),
    FieldDescriptor.TYPE_DOUBLE: st.floats(),
}


@st.composite
def messages(draw, kind, depth=0):
    """A message of the class, any of its fields set."""
    message = kind()
    for field in kind.DESCRIPTOR.fields:
        if depth < MOST_DEEP and draw(st.integers(0, 3)) != 0:
            fill(draw, message, field, depth)
    return message


def fill(draw, message, field, depth):
    inner = field.message_type
    if inner is not None and inner.GetOptions().map_entry:
        if inner.fields_by_name["value"].message_type is None:
            entries = st.dictionaries(TEXTS, TEXTS, max_size=2)
            getattr(message, field.name).update(draw(entries))
    elif field.is_repeated:
        for _ in range(draw(st.integers(0, 2))):
            values = getattr(message, field.name)
            if inner is None:
                values.append(draw(SCALARS[field.type]))
            else:
                values.append(draw(messages(values.add().__class__, depth + 1)))
    elif inner is None:
        setattr(message, field.name, draw(SCALARS[field.type]))
    else:
        target = getattr(message, field.name)
        target.SetInParent()
        target.CopyFrom(draw(messages(type(target), depth + 1)))


JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), TEXTS),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(
            st.one_of(
                TEXTS,
                st.sampled_from(
                    (
                        "acceleratorType",
                        "acceleratorConfig",
                        "type",
                        "labels",
                        "metadata",
                        "networkConfig",
                        "schedulingConfig",
                        "bootDiskConfig",
                        "dataDisks",
                        "mode",
                        "spot",
                        "guaranteed",
                        "tpu",
                        "nodeSpec",
                        "node",
                        "queueingPolicy",
                        "validUntilTime",
                        "runDuration",
                        "trafficConfig",
                        "workerIds",
                        "name",
                    )
                ),
            ),
            inner,
            max_size=4,
        ),
    ),
    max_leaves=12,
)
