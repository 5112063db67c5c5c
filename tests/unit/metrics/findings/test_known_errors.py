"""Every known error is found by the text that was seen, and by nothing that only looks like it."""

import re
from pathlib import Path

import pytest

from tpuctl.bounded_search import BoundedSearch
from tpuctl.metrics.findings.known_errors import LONGEST_LINE, TABLE, first_match
from tpuctl.metrics.findings.observation import Observation
from tpuctl.metrics.findings.rules import findings
from tpuctl.models.job import Attempt, AttemptOutcome, AttemptState, JobRecord, JobSpec, JobState

SEEN = {
    "hbm-out-of-memory": (
        "jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: XLA:TPU compile permanent "
        "error. Ran out of memory in memory space hbm. Used 21.95G of 15.48G hbm.",
        "RESOURCE_EXHAUSTED: Error allocating device buffer: Attempting to allocate 196.00M. That "
        "was not possible. There are 134.44M free.; (1x0x0_HBM0)",
        "RESOURCE_EXHAUSTED: Error loading program 'jit__multi_slice': Attempting to reserve 6.14G "
        "at the bottom of memory. That was not possible.",
    ),
    "vmem-out-of-memory": (
        "RuntimeError: Bad StatusOr access: RESOURCE_EXHAUSTED: XLA:TPU compile permanent error. "
        "Ran out of memory in memory space vmem. Used 32.42M of 16.00M vmem.",
    ),
    "chips-in-use": (
        "RuntimeError: Unable to initialize backend 'tpu': UNKNOWN: TPU initialization failed: "
        "open(/dev/vfio/1): Device or resource busy: Device or resource busy; Couldn't open iommu "
        "group /dev/vfio/1 (set JAX_PLATFORMS='' to automatically choose an available backend)",
        "ABORTED: The TPU is already in use by process with pid 176028. Not attempting to load "
        "libtpu.so in this process.",
        "libtpu.so already in use by another process probably owned by another user.",
        "ABORTED: Internal error when accessing libtpu multi-process lockfile. Run \"$ sudo rm "
        "/tmp/libtpu_lockfile\".",
    ),
    "chips-not-permitted": (
        "Invalid argument: Invalid fd: -1; Couldn't open device: /dev/accel0 (Operation not "
        "permitted); Unable to create Node RegisterInterface for node 0",
    ),
    "libtpu-missing": (
        "RuntimeError: Unable to initialize backend 'tpu': INTERNAL: Failed to open libtpu.so: "
        "libtpu.so: cannot open shared object file: No such file or directory",
    ),
    "python-module-missing": (
        "ModuleNotFoundError: No module named 'flax.linen'",
        "[rank3]: ModuleNotFoundError: No module named 'torch_xla'",
    ),
    "disk-full": (
        "OSError: [Errno 28] No space left on device: '/home/me/.cache/x'",
        "cp: error writing '/tmp/x': No space left on device",
    ),
    "host-out-of-memory": (
        "MemoryError",
        "OSError: [Errno 12] Cannot allocate memory",
        "numpy._core._exceptions._ArrayMemoryError: Unable to allocate 400. GiB for an array",
        "terminate called after throwing an instance of 'std::bad_alloc'",
    ),
    "bucket-permission": (
        "google.api_core.exceptions.Forbidden: 403 GET https://storage.googleapis.com/x: "
        "sa@p.iam.gserviceaccount.com does not have storage.objects.get access to the Google "
        "Cloud Storage object. Permission 'storage.objects.get' denied on resource",
    ),
    "scopes-missing": ("Request had insufficient authentication scopes.",),
    "bucket-missing": (
        "google.api_core.exceptions.NotFound: 404 The specified bucket does not exist.",
    ),
    "quota-zero": (
        "Quota 'TPUV5sLitepodPerProjectPerZoneForTPUAPI' exceeded. Limit: 0 in region us-west4",
    ),
    "quota-exceeded": (
        "429 Quota exceeded for quota metric 'Read requests' and limit 'Reads per minute'",
    ),
    "token-unavailable": (
        "google.api_core.exceptions.ServiceUnavailable: 503 Getting metadata from plugin failed "
        "with error: (\"Failed to retrieve http://metadata.google.internal/computeMetadata/v1/"
        "instance/service-accounts/default/token from the Google Compute Engine metadata service.",
    ),
    "no-route": (
        "urllib3.exceptions.NewConnectionError: Failed to establish a new connection: [Errno 101] "
        "Network is unreachable",
        "Could not connect to us-east1.gce.archive.ubuntu.com:80 (35.196.65.164), connection timed "
        "out",
        "socket.gaierror: [Errno -3] Temporary failure in name resolution",
    ),
    "ssh-refused": ("git@github.com: Permission denied (publickey).",),
    "address-in-use": ("OSError: [Errno 98] Address already in use",),
    "cpu-only": (
        "WARNING:2025-04-06 19:31:14,948:jax._src.xla_bridge:971: A Google TPU may be present on "
        "this machine, but either a TPU-enabled jaxlib or libtpu is not installed. Falling back to "
        "cpu.",
    ),
    "not-on-all-hosts": (
        "UserWarning: TPU backend initialization is taking more than 60.0 seconds. Did you run "
        "your code on all TPU hosts?",
    ),
    "no-topology": ("RuntimeError: INTERNAL: Failed to get global TPU topology.",),
    "coordinator-timeout": (
        "jaxlib.xla_extension.XlaRuntimeError: DEADLINE_EXCEEDED: Barrier timed out. Barrier_id: "
        "PjRT_Client_Connect. Timed out task names:",
        "UNAVAILABLE: Task /job:jax_worker/replica:0/task:37 heartbeat timeout. This indicates "
        "that the remote task has failed, got preempted, or crashed unexpectedly.",
        "client.cc:96] Coordination service agent in error status: DEADLINE_EXCEEDED",
    ),
    "gloo-connection": (
        "RuntimeError: Gloo connectFullMesh failed with [../third_party/gloo/gloo/transport/tcp/"
        "pair.cc:144] no error",
        "RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:598] Connection closed by "
        "peer [10.0.0.3]:28048",
    ),
}  # fmt: skip
WELL = (
    "step=120 loss=2.31 examples_per_s=812.4",
    "memory space: hbm 12.1G of 15.5G used, vmem 4M",
    "rm -f /tmp/libtpu_lockfile",
    "ValueError: Incompatible shapes for matmul: (128, 784) (785, 10)",
    "raising ModuleNotFoundError is what this test does",
    "quota project: p; limit: 100",
    "quota: 12 of 20 used, limit: 05 of the day",
    "listening at port 8476, address in use: 10.0.0.2",
    "registered 4 tasks with the coordination service",
    "Gloo backend ready on 4 ranks",
    "Waiting for the network to be reachable",
    "saved checkpoint 100 to gs://b/runs (permission storage.objects.create granted)",
)
HOSTILE = ("a" * LONGEST_LINE, "Attempting to allocate " * 87, "quota limit: " * 150,
           "Connection to " * 140, "Gloo " * 400, " " * LONGEST_LINE)  # fmt: skip
LIMIT_S = 0.5


def test_every_row_has_a_text_that_was_seen_and_says_where():
    assert list(SEEN) == [error.name for error in TABLE]
    assert [error.name for error in TABLE if not (error.source and error.command)] == []


@pytest.mark.parametrize("name", SEEN)
def test_a_text_that_was_seen_is_known(name):
    for text in SEEN[name]:
        found = first_match(["starting", text, "and so on"])
        assert found is not None, text
        assert (found.error.name, found.line) == (name, text)
        assert "{" not in found.cause


def test_what_only_looks_like_an_error_is_none():
    assert [line for line in WELL if first_match([line])] == []


def test_no_line_makes_a_search_long():
    for error in TABLE:
        with BoundedSearch(error.pattern, LIMIT_S) as bounded:
            for line in HOSTILE:
                bounded.search(line)


def failed_job(reason: str = "worker 1: the program ended with status 1", **changes) -> JobRecord:
    attempt = Attempt(
        2, "us-west4-a", "digits-1-a2", AttemptState.ENDED, owned=True, worker_count=4,
        first_worker=1, outcome=AttemptOutcome.FAILED, reason=reason, **changes,
    )  # fmt: skip
    return JobRecord(
        "digits-1", JobSpec("digits", "python3 train.py"), "me@here", 0.0, "us-west4-a",
        "v5litepod-16", state=JobState.FAILED, attempts=(attempt,),
    )  # fmt: skip


(OUT_OF_MEMORY, *_), (TIMED_OUT, *_) = SEEN["hbm-out-of-memory"], SEEN["coordinator-timeout"]


def test_what_follows_from_the_end_of_another_worker_is_no_cause():
    ends = {0: [TIMED_OUT], 1: ["step=3", OUT_OF_MEMORY], 2: [OUT_OF_MEMORY, TIMED_OUT]}
    (found,) = findings(Observation(0.0, job=failed_job(), log_ends=ends))
    assert (found.name, found.workers) == ("hbm-out-of-memory", (1, 2))
    assert found.sentence == (
        "the program needs more memory than a chip has: make the batch smaller, or shard more"
    )
    assert found.evidence == f"attempt 2: {OUT_OF_MEMORY}"
    assert found.command == "tpuctl job metrics digits-1 --metric hbm_used_bytes"


def test_without_a_cause_what_follows_is_told():
    ends = {0: [TIMED_OUT], 3: [TIMED_OUT]}
    (found,) = findings(Observation(0.0, job=failed_job(), log_ends=ends))
    assert (found.name, found.workers) == ("coordinator-timeout", (0, 3))
    assert found.command == "tpuctl job logs digits-1 --attempt 2"


@pytest.mark.parametrize(
    ("deleted_s", "command"),
    [
        (None, "tpuctl node free digits-1-a2"),
        (9.0, "tpuctl job logs digits-1 --attempt 2 --worker 1"),
    ],
)
def test_a_command_about_a_node_is_for_one_that_is_there(deleted_s, command):
    ends = {1: list(SEEN["chips-in-use"])}
    seen = Observation(9.0, job=failed_job(deleted_s=deleted_s), log_ends=ends)
    assert [found.command for found in findings(seen)] == [command]


def test_the_reason_of_a_refused_slice_is_searched_too():
    (limit,) = SEEN["quota-zero"]
    seen = Observation(0.0, job=failed_job(f"the quota is used up: {limit}"))
    assert [(found.name, found.workers, found.command) for found in findings(seen)] == [
        ("quota-zero", (), "tpuctl catalog zones")
    ]


def test_the_page_lists_every_known_error():
    page = (Path(__file__).parents[4] / "docs" / "explain.md").read_text("utf-8")
    table = page.partition("## Known errors")[2]
    assert re.findall(r"^\| `([\w-]+)` \| (.*) \|$", table, re.MULTILINE) == [
        (error.name, error.cause) for error in TABLE
    ]
