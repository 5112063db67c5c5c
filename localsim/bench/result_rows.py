"""A row of the result: the time of this machine beside the modelled one of the chip."""

from collections.abc import Mapping
from typing import Any

from tpuctl.perfmodel import chip as model

ResultRow = Mapping[str, Any]


def comparison_row(
    measured_s: float, modelled: model.Estimate, work: float, unit: str
) -> ResultRow:
    """Return both times in seconds, and `work` a second of each; `unit` is ops or bytes."""
    return {
        "host_measured_s": measured_s,
        f"host_measured_{unit}_per_s": work / measured_s,
        "chip_modelled_s": modelled.value_s,
        "chip_modelled_low_s": modelled.low_s,
        "chip_modelled_high_s": modelled.high_s,
        f"chip_modelled_{unit}_per_s": work / modelled.value_s,
    }
