"""The dead man's switch of a job's own slice, seen from here: what its worker 0 is given.

`tpuctl/agent/tools/deadman_switch.py` runs there. Whether slices of this project may delete
themselves is proved by every own slice before its first step; the last proof is kept as the object
`tpuctl/switch`.
"""

import json
from contextlib import suppress
from dataclasses import asdict

from tpuctl import catalog
from tpuctl.errors import DamagedStateError, NotFoundError, PreconditionError
from tpuctl.jobs.interfaces import Backends
from tpuctl.jobs.leases import lease as leasing
from tpuctl.jobs.record import decoding
from tpuctl.jobs.record import record_store as records
from tpuctl.jobs.record.decoding import MalformedError
from tpuctl.jobs.record.status_text import forgotten_price
from tpuctl.models import startup_script
from tpuctl.models.job import Attempt, JobRecord, ProofResult, SwitchProof, Teardown
from tpuctl.models.limits import slice_lifetime, switch_script
from tpuctl.store import Store

KEY = "tpuctl/switch"
SCHEMA = switch_script.SCHEMA
KEYS = "ssh-keys"
PATIENCE_S = 15 * 60.0
"""How long nobody looks after the job before its slice may delete itself."""
REMEDY = (
    "grant the service account of its workers roles/tpu.admin, "
    "and roles/storage.objectUser on the bucket"
)


def switch_config(
    backends: Backends, record: JobRecord, attempt: Attempt
) -> dict[str, object] | None:
    """The configuration of the switch; None for a slice that is not the job's, or is kept."""
    name = attempt.queued_resource
    if not attempt.owned or name is None or record.spec.teardown == Teardown.NEVER:
        return None
    labels = record.spec.resources.options.labels
    return {
        **switch_script.slice_config(backends.project, attempt.zone, name, labels),
        "queued_resource": name,
        "storage": backends.storage_endpoint,
        "bucket": backends.bucket,
        "record": f"{records.RECORDS}{record.job_id}",
        "lease": f"{leasing.LEASES}{record.job_id}",
        "heartbeats": leasing.HEARTBEATS,
        "finals": f"{records.job_directory(record.job_id)}/status/",
        "run": f"{record.job_id}-a",
        "schemas": {"record": records.SCHEMA, "lease": leasing.SCHEMA},
        "workers": attempt.worker_count or _workers(record, attempt),
        "teardown": str(record.spec.teardown),
        "patience_s": PATIENCE_S,
    }


def slice_metadata(backends: Backends, record: JobRecord, attempt: Attempt) -> dict[str, str]:
    """The metadata with which an attempt's slice is requested: the user's, our key, both scripts.

    The switch comes first and runs beside the user's script, whose wrapper ends with its exit code.
    """
    options = record.spec.resources.options
    keys = [*options.metadata.get(KEYS, "").splitlines(), backends.key_line]
    metadata = {**options.metadata, KEYS: "\n".join(line for line in keys if line.strip())}
    script = _switch_script(backends, record, attempt)
    if options.startup_script is not None:
        script += startup_script.wrap_script(options.startup_script)
    return {**metadata, startup_script.KEY: script} if script else metadata


def _switch_script(backends: Backends, record: JobRecord, attempt: Attempt) -> str:
    """The script that runs the switch from the slice's boot on; empty for a slice without one."""
    name, labels = attempt.queued_resource or "", record.spec.resources.options.labels
    found = switch_config(backends, record, attempt)
    if found is None and attempt.owned and slice_lifetime.has_lifetime(labels):
        found = switch_script.slice_config(backends.project, attempt.zone, name, labels)
    return switch_script.switch_script(name, found) if found else ""


def save_proof(store: Store, proof: SwitchProof, now_s: float) -> None:
    """Keep a proof for the next submission, unless nothing was learnt."""
    if proof.result == ProofResult.UNKNOWN:
        return
    data = json.dumps({"schema": SCHEMA, **asdict(proof), "time_s": now_s}).encode()
    entry = store.head(KEY)
    with suppress(PreconditionError):  # another job's proof came meanwhile: as good
        store.put_if_generation(KEY, data, entry.generation if entry else 0)


def load_proof(store: Store) -> SwitchProof | None:
    """The last proof; None when there is none that can be read: the next one replaces it."""
    with suppress(NotFoundError, MalformedError, DamagedStateError):
        document = decoding.parse_document(store.get_range(KEY))
        if not decoding.is_newer(document, SCHEMA):
            return decoding.decode_dataclass(SwitchProof, document)
    return None


def warning(store: Store, usd_per_hour: float | None) -> str | None:
    """A line before another slice is requested; None when slices can delete themselves."""
    proof = load_proof(store)
    if proof is None or proof.result == ProofResult.ARMED:
        return None
    what = f"slices of this project cannot delete themselves ({proof.text})"
    return f"{what}: {forgotten_price(usd_per_hour)}; {REMEDY}"


def _workers(record: JobRecord, attempt: Attempt) -> int | None:
    """How many workers the slices will have; None for a type that the catalog does not know."""
    try:
        kind = catalog.accelerator_type(attempt.accelerator_type or record.accelerator_type)
    except catalog.UnknownError:
        return None
    return kind.workers * attempt.slices
