"""What does not go together is refused before anything is asked: one line and a way out."""

import pytest

from tpuctl.errors import UsageError
from tpuctl.models import option_rules, slice_options, startup_script
from tpuctl.models.node import DiskMode, NodeSpec, Provisioning
from tpuctl.models.queued_resource import QueuedResourceSpec, Queueing
from tpuctl.operations.slices import specs

NOW_S = 1_700_000_000.0
DISK = "projects/demo/zones/us-west4-a/disks/d"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"spot", "reserved"}, "--spot and --reserved exclude each other"),
        ({"spot", "flex_start", "max_run_duration"}, "--spot and --flex-start exclude"),
        ({"reserved", "best_effort"}, "--reserved and --best-effort exclude"),
        ({"flex_start", "reserved", "max_run_duration"}, "--reserved and --flex-start exclude"),
        ({"spot", "reservation"}, "--spot and --reservation exclude"),
        ({"node_id", "node_count"}, "--node-id and --node-count exclude"),
        ({"valid_after_time", "valid_after_duration"}, "--valid-after-duration and"),
        ({"valid_until_time", "valid_until_duration"}, "--valid-until-duration and"),
        ({"node_prefix"}, "--node-prefix needs --node-count"),
        ({"flex_start"}, "--flex-start needs --max-run-duration"),
        ({"max_run_duration"}, "--max-run-duration needs --flex-start"),
    ],
)
def test_options_that_contradict_or_need_each_other(given, message):
    with pytest.raises(UsageError) as caught:
        option_rules.check_options(frozenset(given))
    assert message in str(caught.value)
    assert caught.value.hint


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (set(), Provisioning.ON_DEMAND),
        ({"spot"}, Provisioning.SPOT),
        ({"reservation"}, Provisioning.RESERVED),
        ({"reserved", "reservation"}, Provisioning.RESERVED),
        ({"flex_start", "max_run_duration"}, Provisioning.FLEX_START),
        ({"best_effort"}, Provisioning.BEST_EFFORT),
    ],
)
def test_how_capacity_is_to_be_obtained(given, expected):
    option_rules.check_options(frozenset(given))
    assert option_rules.provisioning(frozenset(given)) == expected


def request(accelerator_type="v5litepod-16", name="n", **extra):
    node = NodeSpec(name, "us-west4-a", accelerator_type, "v")
    return QueuedResourceSpec("q1", node, **extra)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (request(node_count=1), "--node-count must be greater than 1, not 1"),
        (request("v2-8", node_count=2), "v2-8 cannot be part of a multislice"),
        (request(name="n" * 62, node_count=2), "is not a valid name"),
        (request(max_run_duration_s=0.0), "--max-run-duration must be more than nothing"),
        (request(max_run_duration_s=8 * 86400.0), "at most 7 days"),
        (request(queueing=Queueing(until_s=NOW_S - 1)), "would end before it begins"),
        (
            request(queueing=Queueing(after_duration_s=60, until_duration_s=30)),
            "would end before it may be granted",
        ),
    ],
)
def test_requests_that_make_no_sense(spec, message):
    with pytest.raises(UsageError) as caught:
        specs.check_request(spec, NOW_S)
    assert message in str(caught.value)
    assert caught.value.hint


def test_a_request_that_makes_sense_is_left_alone():
    spec = request(node_count=2, queueing=Queueing(after_duration_s=30, until_duration_s=60))
    assert specs.check_request(spec, NOW_S) is spec


def asked(**extra):
    return NodeSpec("n1", "us-west4-a", "v5litepod-16", "", **extra)


def test_a_data_disk_as_gcloud_writes_it():
    disk = slice_options.data_disk({"source": DISK, "mode": "read-only"})
    assert (disk.source, disk.mode) == (DISK, DiskMode.READ_ONLY)
    assert slice_options.data_disk({"source": DISK}).mode == DiskMode.READ_WRITE


@pytest.mark.parametrize(
    "said", [{"mode": "read-only"}, {"source": DISK, "mode": "rw"}, {"x": "y"}]
)
def test_what_is_no_data_disk(said):
    with pytest.raises(UsageError, match="--data-disk"):
        slice_options.data_disk(said)


@pytest.mark.parametrize("source", ["d", DISK.replace("us-west4-a", "us-central1-a")])
def test_a_disk_of_another_zone_cannot_be_attached(source):
    disk = slice_options.data_disk({"source": source})
    with pytest.raises(UsageError, match="is not a disk in us-west4-a"):
        specs.node_spec(asked(data_disks=(disk,)))


def test_short_scopes_are_spelled_out():
    spec = specs.node_spec(asked(scopes=("cloud-platform", "https://x/y")))
    assert spec.scopes == ("https://www.googleapis.com/auth/cloud-platform", "https://x/y")


def test_a_long_description_is_refused():
    with pytest.raises(UsageError, match="513 characters"):
        specs.node_spec(asked(description="x" * 513))


def test_a_startup_script_goes_wrapped_into_the_metadata():
    spec = specs.node_spec(asked(metadata={"a": "b"}), script="echo hello")
    assert spec.metadata["a"] == "b"
    assert startup_script.is_wrapped(spec.metadata)


def test_two_startup_scripts_are_one_too_many():
    with pytest.raises(UsageError, match="both give 'startup-script'"):
        specs.node_spec(asked(metadata={"startup-script": "b"}), script="a")
