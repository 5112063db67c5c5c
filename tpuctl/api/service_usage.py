"""Service Usage: the limits of Cloud TPU's quotas, as v1beta1's consumerQuotaMetrics has them.

How much is in use it does not say. In the field a metric is called
`tpu.googleapis.com/tpu-v5s-litepod-preemptible`, or as the quota in an error message:
`.../TPUV5sPreemptibleLitepodPerProjectPerZoneForTPUAPI`; both are understood.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from tpuctl.api.answers import ask, parse_answer
from tpuctl.api.tpu.rest import RestApi
from tpuctl.errors import IntegrityError
from tpuctl.page_tokens import json_token, read_pages

TPU = "tpu.googleapis.com"
UNLIMITED = -1
PAGE_SIZE = 200
_SCOPE = re.compile(r"\{(zone|region)\}")
_END = re.compile(r"perprojectper(zone|region)fortpuapi$")


@dataclass(frozen=True, slots=True)
class QuotaLimit:
    """One limit for each zone or each region; `default` holds where no value is given for it."""

    quota: str
    """Such as `tpuv5slitepod`: letters and digits alone, without the tier."""
    is_preemptible: bool
    scope: str
    default: int | None
    by_place: Mapping[str, int]

    def of(self, zone: str) -> int | None:
        """The limit that holds for a zone; None where there is none, or it is not told."""
        place = zone if self.scope == "zone" else zone.rpartition("-")[0]
        found = self.by_place.get(place, self.default)
        return None if found == UNLIMITED else found


def tpu_limits(rest: RestApi, project: str) -> list[QuotaLimit]:
    """Every limit of Cloud TPU's; raises IntegrityError, what `ask` and what tokens raise."""
    about = f"the quotas of project {project}"

    def fetch(token: str) -> Mapping[str, Any]:
        query = {"view": "FULL", "pageSize": PAGE_SIZE, **({"pageToken": token} if token else {})}
        path = f"/v1beta1/projects/{project}/services/{TPU}/consumerQuotaMetrics"
        return ask(rest, "GET", f"{path}?{urlencode(query)}", about)

    with parse_answer(about):
        pages = read_pages(fetch, json_token, IntegrityError, about)
        return [
            limit
            for page in pages
            for metric in page.get("metrics", [])
            for limit in _limits(metric)
        ]


def _limits(metric: Mapping[str, Any]) -> Iterator[QuotaLimit]:
    name = str(metric.get("metric", "")).rpartition("/")[2].lower()
    quota = re.sub(r"[^a-z0-9]", "", _END.sub("", name))
    for limit in metric.get("consumerQuotaLimits", []):
        scope = _SCOPE.search(str(limit.get("unit", "")))
        if scope is None:
            continue  # calls per minute
        buckets = limit.get("quotaBuckets", [])
        by_place = {
            str(bucket["dimensions"][scope[1]]): int(bucket.get("effectiveLimit", 0))
            for bucket in buckets
            if scope[1] in bucket.get("dimensions", {})
        }
        others = [bucket for bucket in buckets if not bucket.get("dimensions")]
        default = int(others[0].get("effectiveLimit", 0)) if others else None
        is_preemptible = "preemptible" in quota
        yield QuotaLimit(
            quota.replace("preemptible", ""), is_preemptible, scope[1], default, by_place
        )
