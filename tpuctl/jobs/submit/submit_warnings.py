"""What to say of a job that may not do what its author expects; nothing of it is refused."""

from tpuctl import catalog
from tpuctl.models.job import JobRecord, Teardown
from tpuctl.models.search import Search


def warnings_for(record: JobRecord) -> list[str]:
    """Lines for the person who submits; an empty list when nothing is odd."""
    spec = record.spec
    wanted = spec.resources
    is_own = record.node is None
    found = {
        _slices_stay(record): is_own and spec.teardown == Teardown.NEVER,
        "spot slices are preempted: without checkpoints the program starts from step 0": (
            is_own
            and wanted.use_spot
            and spec.restart.preemption
            and spec.checkpoints is None
            and spec.predict is None
            and spec.serve is None
        ),
        f"{wanted.runtime_version} has TensorFlow, which does not work across slices": (
            wanted.num_slices > 1
            and (wanted.runtime_version or "").startswith(catalog.TENSORFLOW_PREFIX)
        ),
        f"{wanted.runtime_version} is not in the catalog: the Cloud TPU API decides": (
            is_own and not _is_known(record.accelerator_type, wanted.runtime_version)
        ),
        "resources.zones says nothing about a slice that exists already": (
            not is_own and wanted.zones not in ((), record.zones)
        ),
        "search says nothing about a slice that exists already": (
            not is_own and spec.search != Search()
        ),
    }
    return [line for line, holds in found.items() if holds]


def _slices_stay(record: JobRecord) -> str:
    usd = record.usd_per_hour
    price = "" if usd is None else f" and cost {usd:.2f} USD/h"
    return f"teardown is never: the job's slices stay{price} until somebody deletes them"


def _is_known(accelerator_type: str, runtime_version: str | None) -> bool:
    generation = catalog.accelerator_type(accelerator_type).generation
    return runtime_version is None or runtime_version in catalog.runtime_versions(generation)
