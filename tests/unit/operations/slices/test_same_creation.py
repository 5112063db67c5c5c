"""Which create is the same as an earlier one: the label of a request tells."""

from dataclasses import fields, replace

import pytest

from tpuctl.errors import ConflictError
from tpuctl.models.node import Node, NodeSpec
from tpuctl.models.queued_resource import QueuedResource, QueuedResourceSpec, Queueing
from tpuctl.operations.slices import same_creation
from tpuctl.operations.slices.same_creation import LABEL

SPEC = NodeSpec("n1", "us-west4-a", "v5litepod-16", "v2-alpha-tpuv5-lite", metadata={"a": "b"})
NODE = Node(
    "n1", "us-west4-a", 1, "v5litepod-16", "v2-alpha-tpuv5-lite", "READY", "on-demand", 0.0,
    metadata={"a": "b", "ssh-keys": "me:k"}, network="projects/p/global/networks/default",
)  # fmt: skip
REQUEST = QueuedResource(
    "q1", "us-west4-a", "ACTIVE", "USER", ("n1",), "v5litepod-16", "v", "on-demand", 0.0
)


def label(spec: NodeSpec) -> str:
    return same_creation.label_node(spec).labels[LABEL]


def test_every_field_of_a_specification_is_in_its_label_and_our_key_is_not():
    changed = {each.name: "another" for each in fields(NodeSpec)} | {
        "labels": {"a": "c"}, "metadata": {"a": "c"},
    }  # fmt: skip
    labels = {label(replace(SPEC, **{name: value})) for name, value in changed.items()}
    assert len(labels | {label(SPEC)}) == len(changed) + 1
    assert label(replace(SPEC, metadata={"a": "b", "ssh-keys": "me:other"})) == label(SPEC)


def test_a_label_counts_whatever_the_service_has_filled_in():
    spec = same_creation.label_node(SPEC)
    filled = replace(NODE, description="set by the service", labels=dict(spec.labels))
    same_creation.check_same_node(spec, filled)
    with pytest.raises(ConflictError, match="description is set by the service, not none"):
        same_creation.check_same_node(spec, replace(filled, labels={}))


def test_without_a_label_the_names_that_the_service_spells_out_are_the_same():
    same_creation.check_same_node(same_creation.label_node(SPEC), NODE)
    named = same_creation.label_node(replace(SPEC, network="default"))
    same_creation.check_same_node(named, NODE)


def test_the_window_of_a_request_is_part_of_what_is_asked_for():
    soon = QueuedResourceSpec("q1", SPEC, queueing=Queueing(until_duration_s=60.0))
    later = replace(soon, queueing=Queueing(until_duration_s=90.0))
    labels = [same_creation.label_request(each).node.labels[LABEL] for each in (soon, later)]
    assert labels[0] != labels[1]
    with pytest.raises(ConflictError, match="the window in which it may be granted is another"):
        same_creation.check_same_request(same_creation.label_request(soon), REQUEST, NODE)
