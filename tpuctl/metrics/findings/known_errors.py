"""Errors that are known by their text: what each means, and what to do next.

A row has a regular expression for one line, the cause in one sentence, the command to run next and
where the text was seen. The table is read from the top: the first row that a worker's log has is
its cause. What only follows from another worker's end counts where no worker has a cause.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from tpuctl.metrics.findings.observation import Finding, Observation
from tpuctl.models.job import Attempt
from tpuctl.models.worker_numbers import format_ranges

LONGEST_LINE = 2000
"""Characters of a line that are searched, so that no search takes long."""
LONGEST_QUOTE = 160
LOGS = "tpuctl job logs {job} --attempt {attempt} --worker {workers}"
ALL_LOGS = "tpuctl job logs {job} --attempt {attempt}"
METRICS = "tpuctl job metrics {job} --metric "
FREE = "tpuctl node free {node}"
CHECK = "tpuctl node workers {node} --check"
DESCRIBE = "tpuctl node describe {node}"


class KnownError(NamedTuple):
    """An error that is known by the text of a line."""

    name: str
    pattern: re.Pattern[str]
    cause: str
    command: str
    """With {job}, {node}, {attempt} and {workers} for what it is about."""
    source: str
    """Where the text was seen."""
    is_consequence: bool = False
    """Another worker's end brings it about."""


def _row(
    name: str, pattern: str, cause: str, command: str, source: str, *, follows: bool = False
) -> KnownError:
    return KnownError(name, re.compile(pattern), cause, command, source, follows)


TABLE: tuple[KnownError, ...] = (
    _row(
        "hbm-out-of-memory",
        r"Ran out of memory in memory space hbm|Exceeded hbm capacity|"
        r"RESOURCE_EXHAUSTED: Error (?:allocating device buffer|loading program)|"
        r"Attempting to (?:allocate|reserve) \S{1,40}(?: at the bottom of memory)?\. "
        r"That was not possible",
        "the program needs more memory than a chip has: make the batch smaller, or shard more",
        METRICS + "hbm_used_bytes",
        "github.com/LargeWorldModel/LWM/issues/60 (compile); github.com/pytorch/xla/issues/8020 "
        "and github.com/AI-Hypercomputer/tpu-recipes/issues/151 (run)",
    ),
    _row(
        "vmem-out-of-memory",
        r"Ran out of memory in memory space vmem|Exceeded vmem capacity",
        "a kernel needs more of the chip's vector memory than there is: make its blocks smaller",
        LOGS,
        "github.com/pytorch/xla/issues/9524",
    ),
    _row(
        "chips-in-use",
        r"open\(/dev/(?:vfio/|accel)\d+\): Device or resource busy|"
        r"Couldn't open iommu group /dev/vfio/\d+|[Tt]he TPU is already in use by|"
        r"libtpu\.so (?:is )?already in use by|libtpu multi-process lockfile",
        "another process holds the chips",
        FREE,
        "github.com/marin-community/marin/issues/2618; github.com/google/gvisor/issues/11545; "
        "github.com/jax-ml/jax/issues/10192 and 22070; github.com/openxla/xla/pull/4666",
    ),
    _row(
        "chips-not-permitted",
        r"Couldn't open device: /dev/accel\d+ \(Operation not permitted\)|"
        r"open\(/dev/(?:vfio/|accel)\d+\): (?:Permission denied|Operation not permitted)",
        "the account of the program may not open the chips",
        LOGS,
        "github.com/pytorch/xla/issues/3165",
    ),
    _row(
        "libtpu-missing",
        r"libtpu\.so: cannot open shared object file|Failed to open libtpu\.so",
        'libtpu is not installed: pip install "jax[tpu]" in setup',
        LOGS,
        "github.com/pytorch/xla/pull/6717; github.com/jax-ml/jax/issues/24987",
    ),
    _row(
        "python-module-missing",
        r"^(?:\[rank\d+\]: )?ModuleNotFoundError: No module named '(?P<what>[\w.-]{1,100})'",
        "the Python module {what} is not installed: install it in setup",
        LOGS,
        "Python's own text (docs.python.org/3/library/exceptions.html#ModuleNotFoundError)",
    ),
    _row(
        "disk-full",
        r"\[Errno 28\] No space left on device|: No space left on device",
        "the disk of the worker is full",
        METRICS + "disk_used_bytes",
        "ENOSPC of the kernel, as strerror(3) has it",
    ),
    _row(
        "host-out-of-memory",
        r"^MemoryError\b|\[Errno 12\] Cannot allocate memory|std::bad_alloc|"
        r"numpy\S*\._ArrayMemoryError",
        "the memory of the host is full",
        METRICS + "memory_used_bytes",
        "ENOMEM of the kernel, as strerror(3) has it; MemoryError of Python",
    ),
    _row(
        "bucket-permission",
        r"does not have storage\.(?P<what>[a-zA-Z.]{1,60}) access|"
        r"Permission 'storage\.[a-zA-Z.]{1,60}' denied",
        "the service account of the workers may not use the bucket (storage.{what})",
        "gcloud storage buckets get-iam-policy gs://BUCKET",
        "github.com/google-research/bert/issues/98; "
        "github.com/google-research/circuit_training/issues/86",
    ),
    _row(
        "scopes-missing",
        r"insufficient authentication scopes|ACCESS_TOKEN_SCOPE_INSUFFICIENT|"
        r"Provided scope\(s\) are not authorized",
        "the workers were created without the scope for this API",
        DESCRIBE,
        "cloud.google.com/compute/docs/access/service-accounts (access scopes)",
    ),
    _row(
        "bucket-missing",
        r"The specified bucket does not exist",
        "the bucket does not exist",
        "gcloud storage buckets list",
        "cloud.google.com/storage/docs/xml-api/reference-status (NoSuchBucket)",
    ),
    _row(
        "quota-zero",
        r"(?i)quota\b.{0,300}\blimit: 0(?:\.0)?\b",
        "the project has no quota for this here: use another zone or type, or ask for quota",
        "tpuctl catalog zones",
        "github.com/marin-community/marin/issues/3200",
    ),
    _row(
        "quota-exceeded",
        r"Quota exceeded for quota|Quota '[\w-]{1,100}' exceeded|rateLimitExceeded|"
        r"RATE_LIMIT_EXCEEDED",
        "a quota of the project is used up",
        LOGS,
        "cloud.google.com/docs/quotas/troubleshoot; github.com/marin-community/marin/issues/2739",
    ),
    _row(
        "token-unavailable",
        r"Getting metadata from plugin failed with error|"
        r"Failed to retrieve http://metadata\.google\.internal\S*|"
        r"from the Google Compute Engine ?metadata service",
        "the worker got no token from its metadata server: the service account is gone or may not "
        "be used, or the server did not answer",
        DESCRIBE,
        "github.com/google/clusterfuzz/issues/2557; "
        "github.com/googleapis/google-auth-library-python/pull/916",
    ),
    _row(
        "no-route",
        r"\[Errno 101\] Network is unreachable|Network is unreachable|"
        r"(?:Connection to|Could not connect to) \S{1,200}.{0,80}(?:connection )?timed out|"
        r"Temporary failure in name resolution",
        "the worker does not reach the internet: without an external address it needs Private "
        "Google Access for Google's APIs, and Cloud NAT for the rest",
        DESCRIBE,
        "github.com/dask/dask-cloudprovider/issues/215; cloud.google.com/vpc/docs/"
        "private-google-access",
    ),
    _row(
        "ssh-refused",
        r"Permission denied \(publickey|Host key verification failed",
        "an SSH server refused the worker (git over SSH needs a key): use HTTPS with a token in "
        "secrets",
        LOGS,
        "ssh(1) of OpenSSH",
    ),
    _row(
        "address-in-use",
        r"\[Errno 98\] Address already in use|[Aa]ddress already in use",
        "another process of the worker has the port, often one of an earlier run",
        LOGS,
        "EADDRINUSE of the kernel, as strerror(3) has it",
    ),
    _row(
        "cpu-only",
        r"A Google TPU may be present on this machine, but|No GPU/TPU found, falling back to CPU",
        "JAX did not find the chips and used the processors of the host",
        LOGS,
        "github.com/AI-Hypercomputer/RecML/issues/9; github.com/jax-ml/jax/issues/17624",
    ),
    _row(
        "not-on-all-hosts",
        r"Did you run your code on all TPU hosts\?",
        "not every host of the slice runs the program: JAX waits for all of them",
        CHECK,
        "github.com/jax-ml/jax/issues/19971",
    ),
    _row(
        "no-topology",
        r"Failed to get global TPU topology",
        "the hosts of the slice did not find each other, or another process holds chips",
        CHECK,
        "github.com/google/gemma_pytorch/issues/25; github.com/pytorch/xla/issues/7939",
        follows=True,
    ),
    _row(
        "coordinator-timeout",
        r"DEADLINE_EXCEEDED: Barrier timed out|heartbeat timeout\. This indicates that the remote "
        r"task|Coordination service agent in error status|"
        r"coordination service as cluster registration failed|CoordinationService/RegisterTask",
        "a worker waited for the others, and one of them died or began too late",
        ALL_LOGS,
        "github.com/ayaka14732/llama-2-jax/issues/20; github.com/AI-Hypercomputer/gpu-recipes/"
        "issues/2; github.com/google/paxml/issues/77",
        follows=True,
    ),
    _row(
        "gloo-connection",
        r"Gloo \S{1,60} ?(?:\S{1,60} )?failed|gloo/transport/tcp/pair\.cc:\d+\]",
        "the connection between workers broke off: another one died, or a port is closed",
        ALL_LOGS,
        "github.com/sgl-project/sglang/issues/3226; github.com/pytorch/pytorch/issues/75512",
        follows=True,
    ),
)  # fmt: skip


class Match(NamedTuple):
    """A known error in a worker's log, and the line that has it."""

    error: KnownError
    cause: str
    line: str


def first_match(lines: Iterable[str]) -> Match | None:
    """The first row of the table that a line of a log has."""
    searched = [line[:LONGEST_LINE] for line in lines]
    for error in TABLE:
        for line in searched:
            if found := error.pattern.search(line):
                what = found.groupdict().get("what") or ""
                cause = error.cause.replace(" (storage.{what})", "") if not what else error.cause
                return Match(error, cause.replace("{what}", what), line)
    return None


def findings(seen: Observation, attempt: Attempt) -> Iterator[Finding]:
    """The causes in the logs of a failed attempt; what follows from others only without a cause."""
    matches = {
        worker_id: found
        for worker_id, lines in seen.log_ends.items()
        if (found := first_match(lines))
    }
    causes = {key: found for key, found in matches.items() if not found.error.is_consequence}
    if not matches and (found := first_match([attempt.reason])):
        yield _finding(seen, attempt, found, ())
    groups: dict[str, list[int]] = {}
    for worker_id, found in (causes or matches).items():
        groups.setdefault(found.error.name, []).append(worker_id)
    for workers in groups.values():
        yield _finding(seen, attempt, matches[workers[0]], tuple(sorted(workers)))


def _finding(seen: Observation, attempt: Attempt, found: Match, workers: Sequence[int]) -> Finding:
    about = {
        "job": seen.name,
        "node": seen.placed(attempt.nodes[0]),
        "attempt": attempt.number,
        "workers": format_ranges(workers or [attempt.first_worker or 0]),
    }
    is_gone = attempt.deleted_s is not None
    form = LOGS if is_gone and "{node}" in found.error.command else found.error.command
    quote = shortened(found.line)
    evidence = f"attempt {attempt.number}: {quote}"
    return Finding(found.error.name, tuple(workers), found.cause, evidence, form.format(**about))


def shortened(line: str) -> str:
    """A line of a log as a quotation of at most 160 characters."""
    text = " ".join(line.split())
    return text if len(text) <= LONGEST_QUOTE else f"{text[:LONGEST_QUOTE]}…"
