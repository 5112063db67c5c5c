"""What `job submit --dry-run` prints."""

from typing import Any

from tpuctl.byte_size import count_text, size_text
from tpuctl.cli.job.details import notify_document, notify_text
from tpuctl.cli.shell.detail_view import DetailBlock, DetailView
from tpuctl.cli.shell.tables.values import PointInTime, Usd, moment_of
from tpuctl.models.slice_options import display_value
from tpuctl.operations.jobs.plan import JobPlan, PlannedPlace

NOT_SHOWN = frozenset({"metadata", "startup_script"})
"""Options whose values may be long, or secret: only that they are given is shown."""


def plan_document(plan: JobPlan) -> dict[str, Any]:
    """The plan as a JSON object. Keys are public."""
    job, spec = plan.job, plan.job.spec
    return {
        "name": spec.name,
        "accelerator_type": job.accelerator_type,
        "slices": spec.resources.num_slices,
        "provisioning": spec.resources.provisioning,
        "node": job.node,
        "places": [
            {
                "zone": place.zone,
                "accelerator_type": place.accelerator_type,
                "usd_per_hour": place.usd_per_hour,
                "quota": place.quota,
                "stockout": moment_of(place.stockout_s),
            }
            for place in plan.places
        ],
        "usd_per_hour": job.usd_per_hour,
        "most_usd": plan.most_usd,
        "bucket": plan.bucket,
        "bucket_location": plan.bucket_location,
        "files": plan.files,
        "size_bytes": plan.size_bytes,
        "checkpoints": spec.checkpoints.dir if spec.checkpoints else None,
        "file_mounts": dict(spec.file_mounts),
        "options": {name: _option_text(plan, name) for name in _options(plan)},
        "notify": [notify_document(target) for target in spec.notify or ()],
    }


def plan_view(plan: JobPlan) -> DetailView:
    """The plan for people."""
    job, spec = plan.job, plan.job.spec
    number = "" if spec.resources.num_slices == 1 else f"{spec.resources.num_slices} x "
    where = f"on node {job.node}" if job.node else str(spec.resources.provisioning)
    location = plan.bucket_location or "not known"
    types = list(dict.fromkeys(place.accelerator_type for place in job.places))
    types = types or [job.accelerator_type]
    fields = [
        ("slices", f"{number}{' or '.join(types)} {where}"),
        ("price", f"{'at most ' * (len(types) > 1)}{_price(job.usd_per_hour)} while READY"),
        ("at most", _most(plan)),
        ("bucket", f"gs://{plan.bucket} in {location}"),
        ("upload", f"{count_text(plan.files, 'file')}, {size_text(plan.size_bytes)}"),
        ("checkpoints", spec.checkpoints.dir if spec.checkpoints else "none"),
        *((name, _option_text(plan, name)) for name in _options(plan)),
        *(("notify", notify_text(target)) for target in spec.notify or ()),
    ]
    rows = [
        (place.zone, place.accelerator_type, _price(place.usd_per_hour), _state(place))
        for place in plan.places
    ]
    title = "place" if job.node else "places, in the order they are tried"
    return DetailView(f"job {spec.name}", "NOT SUBMITTED", fields, [DetailBlock(title, rows)])


def _options(plan: JobPlan) -> list[str]:
    return sorted(plan.job.spec.resources.options.given)


def _option_text(plan: JobPlan, name: str) -> str:
    """The value of an option, and whether the context decided it."""
    value = getattr(plan.job.spec.resources.options, name)
    if name in NOT_SHOWN:
        return "given"
    text = display_value(value)
    return f"{text} (context)" if name in plan.defaults else text


def _state(place: PlannedPlace) -> str:
    out = place.stockout_s
    stockout = f"no capacity at {PointInTime(out)}" if out is not None else ""
    return "; ".join(filter(None, (place.quota, stockout)))


def _most(plan: JobPlan) -> str:
    if plan.most_usd is not None:
        return f"{Usd(plan.most_usd)} USD"
    spec = plan.job.spec
    if spec.timeouts.run_s is None and spec.budget.hours is None:
        return "no limit: neither timeouts.run nor budget gives one"
    return "no list price is known"


def _price(usd: float | None) -> str:
    return "no list price" if usd is None else f"{Usd(usd)} USD/h"
