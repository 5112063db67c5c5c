"""What Prometheus reads, to the letter."""

import json
import re
from pathlib import Path

from tpuctl.metrics.exporters.prometheus_text import (
    GAUGES,
    SAMPLED,
    GaugeValue,
    exposition,
    sampled_values,
)

PAGE = Path(__file__).parents[3] / "docs/metrics.md"
LABELS = {"job": "digits-1", "attempt": "2", "worker": "0", "node": "n1", "zone": "us-west4-a"}
OWN = 'job="digits-1",attempt="2",worker="0",node="n1",zone="us-west4-a"'


def test_a_page_has_the_values_of_each_gauge_together():
    values = {
        "chip.duty_cycle_percent/0": 83.0, "host.load_1m": 0.5, "chip.duty_cycle_percent/1": 0.0,
        "chip.execution_us/0": 1500.0, "program.loss": float("nan"),
    }  # fmt: skip
    up = GaugeValue("tpuctl_supervisor_up", {}, 1)
    assert exposition([*sampled_values(LABELS, values), up]) == (
        "# HELP tpuctl_supervisor_up 1 while the supervisor runs.\n"
        "# TYPE tpuctl_supervisor_up gauge\n"
        "tpuctl_supervisor_up 1\n"
        "# HELP tpuctl_worker_chip_duty_cycle_percent How busy the TensorCores are.\n"
        "# TYPE tpuctl_worker_chip_duty_cycle_percent gauge\n"
        f'tpuctl_worker_chip_duty_cycle_percent{{{OWN},device="0"}} 83\n'
        f'tpuctl_worker_chip_duty_cycle_percent{{{OWN},device="1"}} 0\n'
        "# HELP tpuctl_worker_chip_execution_seconds Mean time of a program on the chip.\n"
        "# TYPE tpuctl_worker_chip_execution_seconds gauge\n"
        f'tpuctl_worker_chip_execution_seconds{{{OWN},device="0"}} 0.0015\n'
        "# HELP tpuctl_worker_load1 Processes that want a processor.\n"
        "# TYPE tpuctl_worker_load1 gauge\n"
        f"tpuctl_worker_load1{{{OWN}}} 0.5\n"
        "# HELP tpuctl_worker_program_value A number that the program prints, by its key.\n"
        "# TYPE tpuctl_worker_program_value gauge\n"
        f'tpuctl_worker_program_value{{{OWN},key="loss"}} NaN\n'
    )


def test_what_a_program_calls_its_numbers_stays_within_the_quotes():
    page = exposition(sampled_values({}, {'program.a"} 1\nb\\': 2.0**40, "program.x": -1e400}))
    assert page.splitlines()[2:] == [
        r'tpuctl_worker_program_value{key="a\"} 1\nb\\"} 1099511627776',
        'tpuctl_worker_program_value{key="x"} -Inf',
    ]


def test_every_metric_of_the_page_has_a_gauge_with_its_unit_in_the_name():
    measured, _, monitored = PAGE.read_text("utf-8").partition("\n## From Cloud Monitoring\n")
    assert monitored
    named = re.findall(r"`((?:host|chip|program)\.[a-z_0-9]+)`", measured)
    assert set(named) == set(SAMPLED)
    units = {"_percent": "_percent", "_bytes": "_bytes", "_us": "_seconds", "_s": "_second"}
    for name, gauge in SAMPLED.items():
        unit = next((unit for end, unit in units.items() if name.endswith(end)), "")
        assert unit in gauge.name
    assert len(GAUGES) == len(SAMPLED) + 6


def test_grafana_s_panels_name_every_gauge_and_no_other():
    dashboard = json.loads((PAGE.parent / "grafana/tpuctl.json").read_text("utf-8"))
    texts = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    texts += [each["query"] for each in dashboard["templating"]["list"]]
    assert {name for text in texts for name in re.findall(r"tpuctl_\w+", text)} == set(GAUGES)
