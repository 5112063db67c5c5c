"""`tpuctl context budget`, and what it makes of every command that asks for slices."""

import json

import pytest
from clouds import Runner

from client.cli.local.test_context import local_like

NODE = ("node", "create", "n1", "-t", "v5litepod-16", "--no-wait")
"""19.20 USD/h."""
HINT = "hint: add --over-budget, or raise the limit: tpuctl context budget local --usd-per-hour "
REFUSED = (
    "error: {}: 19.20 USD/h more than the {} USD/h of now exceed the limit of context 'local', "
    "{} USD/h\n" + HINT + "{}\n"
)
JOB = "name: j1\nresources: {accelerators: v5litepod-16}\nrun: 'true'\n"
KEYS = [
    "context", "max_usd_per_hour", "usd_per_hour", "usd_left_per_hour", "max_usd_per_month",
    "month_usd", "month_forecast_usd",
]  # fmt: skip


@pytest.fixture
def tpuctl(cloud):
    """In the middle of a month."""
    return Runner(cloud.home, sleep=cloud.control.advance, now=lambda: 1_800_000_000.0)


@pytest.fixture
def limited(tpuctl):
    """`limited(options)`: the local context may cost no more; it may cost all in the end."""

    def limit(*options: str) -> None:
        assert tpuctl("context", "budget", "local", *options).code == 0

    yield limit
    assert tpuctl("context", "budget", "--none").err == "context 'local' may cost any sum\n"


def names(tpuctl, noun="node"):
    return tpuctl(noun, "list", "-o", "name").out.split()


def test_it_is_shown_with_what_runs(tpuctl, limited):
    set_ = tpuctl("context", "budget", "--usd-per-hour", "30", "--usd-per-month", "50000")
    assert (set_.code, set_.out, set_.err) == (
        0, "",
        "context 'local' may cost at most 30.00 USD an hour and at most 50000.00 USD a month\n",
    )  # fmt: skip
    tpuctl(*NODE)
    found = tpuctl("context", "budget", "-o", "json").json
    assert list(found) == KEYS
    assert (found["max_usd_per_hour"], found["usd_per_hour"], found["usd_left_per_hour"]) == (
        30.0, 19.2, 10.8
    )  # fmt: skip
    assert found["month_forecast_usd"] >= found["month_usd"] >= 0.0
    shown = dict(line.split(maxsplit=1) for line in tpuctl("context", "budget").out.splitlines())
    assert shown["max_usd_per_month"] == "50000.00"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--usd-per-hour", "0"), "--usd-per-hour must be more than 0, not 0"),
        (("--usd-per-month", "-5"), "--usd-per-month must be more than 0, not -5"),
        (("--none", "--usd-per-hour", "5"), "--none removes every limit"),
    ],
)
def test_what_cannot_be_a_limit_is_refused(tpuctl, options, message):
    result = tpuctl("context", "budget", *options)
    assert (result.code, result.err.splitlines()[0]) == (2, f"error: {message}")


def test_a_context_of_the_configuration_keeps_it(cloud, offline):
    offline(*local_like(cloud))
    assert offline("context", "budget", "lab", "--usd-per-hour", "20").code == 0
    rows = {
        row["setting"]: row for row in offline("context", "show", "-c", "lab", "-o", "json").json
    }
    assert rows["max_usd_per_hour"] == {
        "setting": "max_usd_per_hour", "value": 20.0, "source": "config.yaml"
    }  # fmt: skip
    assert "max_usd_per_month" not in (offline.home / "config.yaml").read_text()
    assert offline("-c", "lab", *NODE[:4], "v5litepod-32").code == 80
    assert offline("context", "budget", "lab", "--none").code == 0
    assert "usd" not in (offline.home / "config.yaml").read_text()


def test_a_damaged_limit_is_named(cloud, offline):
    offline(*local_like(cloud))
    path = offline.home / "config.yaml"
    path.write_text(path.read_text() + "    max_usd_per_hour: lots\n")
    result = offline("context", "list")
    assert result.code == 2
    assert result.err.splitlines()[0] == "error: context 'lab': max_usd_per_hour is 'lots'"


def test_a_node_over_the_limit_is_refused_unless_somebody_insists(tpuctl, limited):
    limited("--usd-per-hour", "15")
    refused = tpuctl(*NODE)
    assert (refused.code, refused.err) == (80, REFUSED.format("node 'n1'", "0.00", "15.00", 20))
    assert names(tpuctl) == []
    assert tpuctl(*NODE, "--over-budget").code == 0
    again = tpuctl("node", "create", "n2", "-t", "v5litepod-16")
    assert (again.code, again.err) == (80, REFUSED.format("node 'n2'", "19.20", "15.00", 39))
    assert names(tpuctl) == ["n1"]


def test_the_same_create_again_counts_once(tpuctl, limited):
    limited("--usd-per-hour", "20")
    assert tpuctl(*NODE).code == 0
    assert tpuctl(*NODE).code == 0


def test_a_request_counts_its_nodes_from_the_moment_it_is_filed(tpuctl, limited):
    limited("--usd-per-hour", "45")
    two = ("-t", "v5litepod-16", "--node-count", "2", "--node-prefix", "q")
    assert tpuctl("qr", "create", "q1", *two).code == 0
    refused = tpuctl("qr", "create", "q2", "-t", "v5litepod-16")
    assert (refused.code, refused.err) == (
        80, REFUSED.format("queued resource 'q2'", "38.40", "45.00", 58)
    )  # fmt: skip
    tpuctl("qr", "wait", "q1")
    assert tpuctl("qr", "create", "q2", "-t", "v5litepod-16").code == 80
    tpuctl("qr", "delete", "q1", "--force", "--yes")
    assert tpuctl("qr", "create", "q2", "-t", "v5litepod-16").code == 0


def test_a_stopped_node_costs_nothing_and_its_start_does(tpuctl, limited):
    tpuctl("node", "create", "s1", "-t", "v5litepod-4")
    tpuctl("node", "stop", "s1")
    limited("--usd-per-hour", "4.5")
    refused = tpuctl("node", "start", "s1")
    assert refused.code == 80
    assert refused.err.startswith("error: node 's1': 4.80 USD/h more than the 0.00 USD/h of now ")
    assert tpuctl("node", "start", "s1", "--over-budget").code == 0


def test_a_month_counts_until_the_ttl(tpuctl, limited):
    limited("--usd-per-month", "40")
    refused = tpuctl(*NODE)
    assert refused.code == 80
    assert "this month and the 0.00 USD of what runs until then exceed" in refused.err
    assert refused.err.splitlines()[1].startswith(
        "hint: add --over-budget, or raise the limit: tpuctl context budget local --usd-per-month "
    )
    assert tpuctl(*NODE, "--ttl", "2h").code == 0
    assert tpuctl("node", "create", "n2", "-t", "v5litepod-16", "--ttl", "2h").code == 80


def test_what_has_no_price_is_asked_for_with_a_warning(tpuctl, limited):
    limited("--usd-per-hour", "1")
    made = tpuctl(*NODE, "--reserved")
    assert (
        "warning: no price of node 'n1' is known: no limit of the context counts it\n" in made.err
    )


def test_a_job_is_refused_before_anything_is_written(tpuctl, cloud, limited, tmp_path):
    limited("--usd-per-hour", "15")
    (tmp_path / "job.yaml").write_text(JOB)
    for argv in (("job", "submit"), ("job", "submit", "--dry-run"), ("run",)):
        refused = tpuctl(*argv, str(tmp_path / "job.yaml"))
        assert refused.code == 80, refused.err
        assert REFUSED.format("job 'j1'", "0.00", "15.00", 20) in refused.err
    assert tpuctl("job", "list").rows == []


def test_a_jobs_budget_bounds_what_it_adds_to_the_month(tpuctl, limited, tmp_path):
    limited("--usd-per-month", "40")
    path = tmp_path / "job.yaml"
    path.write_text(JOB)
    assert tpuctl("job", "submit", "--dry-run", str(path)).code == 80
    path.write_text(JOB + "budget: {usd: 30}\n")
    assert tpuctl("job", "submit", "--dry-run", str(path)).code == 0


def test_a_service_counts_the_replicas_that_it_always_has(tpuctl, limited, tmp_path):
    limited("--usd-per-hour", "15")
    spec = {
        "name": "chat", "resources": {"accelerators": "v5litepod-8"},
        "serve": {"command": "true", "port": 8000, "replicas": {"min": 2, "max": 3}},
    }  # fmt: skip
    (tmp_path / "chat.yaml").write_text(json.dumps(spec))
    refused = tpuctl("job", "submit", str(tmp_path / "chat.yaml"))
    assert refused.code == 80, refused.err
    assert "error: service 'chat': 19.20 USD/h more than the 0.00 USD/h of now" in refused.err
    assert tpuctl("service", "list").rows == []
