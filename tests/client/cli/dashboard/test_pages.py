"""What the pages of the dashboard say."""

import html
import json
import re
from dataclasses import replace

from client.cli.dashboard.serving import Answer
from client.cli.job.job_records import T, attempt, job, put, store_of
from tpuctl.metrics.samples import Sample
from tpuctl.models.job import (
    AttemptOutcome,
    AttemptState,
    Checkpoints,
    JobState,
    SaveWait,
    WorkerReport,
)
from tpuctl.operations.slices import spending
from tpuctl.packed_samples import pack


def words(answer: Answer) -> str:
    """The text of a page, with a space for each element."""
    assert answer.status == 200, answer.text
    body = answer.text[answer.text.index("<main") :]
    return html.unescape(" ".join(re.sub(r"<[^>]*>", " ", body).split()))


def test_an_empty_context_says_so(browser):
    assert words(browser.get("/")) == (
        "Overview open jobs 0 nodes 0 cost now 0.00 USD/h cost of these jobs so far 0.00 USD "
        "What is wrong Nothing is known to be wrong. Jobs There is no job yet. "
        "Nodes There is no node."
    )


def test_the_overview_has_jobs_with_their_cost_nodes_and_what_is_wrong(browser, cloud, tpuctl):
    tpuctl("node", "create", "n1", "-t", "v5litepod-16")
    running = attempt(state=AttemptState.RUNNING, ended_s=None, deleted_s=None, outcome=None)
    store = store_of(cloud.home)
    put(store, job("live-1", JobState.RUNNING, attempts=(running,), why="it <b>runs</b>"))
    put(store, job("done-1", JobState.FAILED, attempts=(attempt(),)))
    page = browser.get("/")
    assert "it &lt;b&gt;runs&lt;/b&gt;" in page.text
    seen = words(page)
    assert re.search(r"live-1 RUNNING 100 v5litepod-16 in us-west4-a 1 2 h ago \d+\.\d\d USD", seen)
    assert "n1 READY v5litepod-16 us-west4-a 4 " in seen
    assert 'href="/jobs/done-1"' in page.text


def test_a_live_page_is_sent_in_sections_that_have_changed(browser, board, cloud):
    looks = []

    async def pause(seconds):
        looks.append(seconds)
        if len(looks) == 1:
            put(store_of(cloud.home), job("new-1", JobState.QUEUED))
        if len(looks) == 3:
            raise ConnectionResetError  # as when the browser goes

    board.pause = pause
    events = browser.get("/", Accept="text/event-stream")
    assert events.headers["content-type"] == "text/event-stream"
    sent = re.findall(r"event: sections\ndata: (\{.*?\})\n\n", events.text)
    keys = [re.findall(r'"(now|missing|findings|jobs|nodes)": ', each) for each in sent]
    assert keys == [["now", "missing", "findings", "jobs", "nodes"], ["now", "jobs"], []]
    assert "/jobs/new-1" in sent[1]
    assert browser.get("/").status == 200


def resumed_job():
    """A job that was preempted after an hour and resumed; its second worker then failed."""
    bad = WorkerReport(
        1, "ended", stage="run", exit_status=1, step=150, last_lines=("step=150", "<b>Killed</b>")
    )
    first = attempt(first_step_s=T + 180, provisioning_s=T + 10)
    second = attempt(
        2, requested_s=T + 3700, provisioning_s=T + 3710, ready_s=T + 3760, started_s=T + 3800,
        first_step_s=T + 3860, ended_s=T + 7000, deleted_s=T + 7030, resume_step=60, last_step=150,
        outcome=AttemptOutcome.FAILED, reason="worker 1 ended with 1", workers=(bad,),
        first_worker=1, save_waits=(SaveWait(1060.0, 30.0), SaveWait(2000.0, 90.0)),
    )  # fmt: skip
    return job(attempts=(first, second), ended_s=T + 7010)


def test_the_page_of_a_job_says_where_its_seconds_and_dollars_went(browser, cloud):
    put(store_of(cloud.home), resumed_job())
    page = browser.get("/jobs/digits")
    seen = words(page)
    assert seen.startswith("digits-1 state FAILED why ")
    parts = re.findall(r"(\w+) (\d+ [hms](?: \d+ [ms])?) (\d+\.\d) % (\d+\.\d+) USD", seen)
    assert [(part, time) for part, time, _, _ in parts] == [
        ("waiting", "20 s"), ("provisioning", "1 m 40 s"), ("preparing", "1 m 40 s"),
        ("compiling", "2 m 00 s"), ("training", "1 h 25 m"),
        ("saving", "1 m 30 s"), ("lost", "23 m 12 s"),
        ("recovering", "40 s"), ("idle", "30 s"),
    ]  # fmt: skip
    goodput = spending.goodput_of(resumed_job(), T + 7200)
    total = sum(each.usd for each in goodput.parts)
    assert f"Together 1 h 57 m, {total:.2f} USD." in seen
    assert abs(sum(float(usd) for *_, usd in parts) - total) < 0.05
    lanes = re.findall(r'<div class="lane"><span>(.*?)</span>', page.text)
    assert lanes == ["all", "1 preempted", "2 failed"]
    assert page.text.count('class="preempted"') == 3


def test_the_page_of_a_job_has_who_failed_first_what_is_wrong_and_what_to_type(browser, cloud):
    put(store_of(cloud.home), resumed_job())
    page = browser.get("/jobs/digits-1")
    seen = words(page)
    assert "Worker 1, the first to go wrong in attempt 2" in seen
    assert "step=150 <b>Killed</b> " in seen
    assert "&lt;b&gt;Killed&lt;/b&gt;" in page.text
    assert "run: tpuctl job " in seen
    assert "2 failed 53 m 20 s 60 to 150 digits-1-a2 in us-west4-a worker 1 ended with 1" in seen
    assert len(page.text) < 20_000


def test_a_job_that_there_is_not_is_said_in_a_page(browser):
    page = browser.get("/jobs/nothing-1%3Cscript%3E")
    assert (page.status, "<script>" in page.text) == (404, False)
    assert "tpuctl job list" in page.text
    page = browser.get("/jobs/")
    assert (page.status, words(replace(page, status=200))) == (
        404, "That did not work There is no such page."
    )  # fmt: skip
    assert 'href="/"' in page.text


def test_the_charts_have_both_attempts_and_when_the_slice_was_taken(browser, cloud):
    store = store_of(cloud.home)
    put(store, resumed_job())
    for number, begin_s in ((1, T + 200), (2, T + 3900)):
        rows = [{"time_s": begin_s + 10 * n, "values": {"program.loss": 2.5}} for n in range(3)]
        for worker in (0, 1):
            key = f"tpuctl/jobs/digits-1/metrics/a{number}/w{worker}/{int(begin_s * 1000):015d}"
            store.put_if_absent(key, pack(rows))
    found = json.loads(browser.get("/jobs/digits-1/samples?worker=1").text)
    (loss,) = found["charts"]
    assert [(line["attempt"], line["label"], line["values"]) for line in loss["lines"]] == [
        (1, "worker 1", [2.5, 2.5, 2.5]), (2, "worker 1", [2.5, 2.5, 2.5]),
    ]  # fmt: skip
    assert [found["times"][line["first"]] for line in loss["lines"]] == [T + 200, T + 3900]
    assert [(mark["time"], mark["text"]) for mark in found["marks"]] == [
        (T + 120, "attempt 1"), (T + 3660, "preempted"), (T + 3800, "attempt 2"),
        (T + 7000, "failed"),
    ]  # fmt: skip
    assert browser.get("/jobs/digits-1/samples?worker=x").status == 400


def test_the_page_of_a_node_has_what_the_api_tells(browser, tpuctl):
    tpuctl("node", "create", "n1", "-t", "v5litepod-16")
    seen = words(browser.get("/nodes/us-west4-a/n1"))
    assert seen.startswith(
        "n1 state READY type v5litepod-16 zone us-west4-a provisioning on-demand"
    )
    assert json.loads(browser.get("/nodes/us-west4-a/n1/samples").text)["charts"] == []
    missing = browser.get("/nodes/us-west4-a/n2")
    assert (missing.status, "tpuctl node list" in missing.text) == (404, True)


def log_lines(browser, query: str) -> tuple[list[str], list[str]]:
    """The lines of the log page, and those that are marked as found."""
    page = browser.get(f"/jobs/digits-1/logs{query}")
    text = re.sub(r"</?span[^>]*>", "", re.search(r"(?s)<pre.*?>(.*?)</pre>", page.text)[1])
    marked = re.findall(r"(?s)<mark id=\"found\">(.*?)\n</mark>", text)
    lines = html.unescape(re.sub(r"<[^>]*>", "", text)).splitlines()
    return [line[9:] for line in lines], [line[9:] for line in marked]


def test_the_log_is_searched_and_jumps_to_a_step_and_to_the_failure(browser, cloud):
    store = store_of(cloud.home)
    put(store, resumed_job())
    printed = [f"step={step} loss=2" for step in range(150)]
    wrong = ["Traceback (most recent call last):", "ValueError: <b>", "bye"]
    for worker, lines in ((0, printed), (1, [*printed, *wrong])):
        log = "".join(f"{T + n} {text}\n" for n, text in enumerate(lines))
        store.put_if_absent(f"tpuctl/jobs/digits-1/logs/a2/w{worker}/{0:012d}", log.encode())
    newest, none = log_lines(browser, "")
    assert (newest[-1], len(newest), none) == ("[2-1] bye", 303, [])
    found, _ = log_lines(browser, "?search=VALUEERROR&worker=1")
    assert found == ["[2-1] ValueError: <b>"]
    lines, marked = log_lines(browser, "?step=100&worker=0")
    assert (len(lines), marked) == (150, ["[2-0] step=100 loss=2"])
    lines, marked = log_lines(browser, "?at=failure")
    assert marked == ["[2-1] Traceback (most recent call last):"]
    nothing = browser.get("/jobs/digits-1/logs?attempt=1&step=%3Cb%3E").text
    assert "There are no such lines." in nothing
    assert browser.get("/jobs/digits-1/logs?worker=x").status == 400


def test_what_jobs_cost_is_added_up_with_what_went_by_without_progress(browser, cloud):
    found = resumed_job()
    put(store_of(cloud.home), found)
    parts = spending.goodput_of(found, T + 7200).parts
    every = sum(each.usd for each in parts)
    good = sum(each.usd for each in parts if each.part == "training")
    assert f"these jobs {every:.2f} USD of it without progress {every - good:.2f} USD" in words(
        browser.get("/cost")
    )


def test_the_checkpoints_of_a_job_or_why_there_is_none(browser, cloud):
    store = store_of(cloud.home)
    saved = replace(resumed_job().spec, checkpoints=Checkpoints("gs://local-bucket/runs/one"))
    put(store, replace(resumed_job(), spec=saved))
    page = words(browser.get("/jobs/digits-1/checkpoints"))
    assert "no checkpoint is in gs://local-bucket/runs/one" in page
    store.put_if_absent("runs/one/step_000000000100/w0_a1.safetensors", b"some")
    page = words(browser.get("/jobs/digits-1/checkpoints"))
    assert re.search(r"100 UNSEALED 4 B 20.*Z safetensors$", page)


def test_prometheus_reads_jobs_and_workers_without_a_cookie(stranger, board, cloud):
    running = attempt(state=AttemptState.RUNNING, ended_s=None, deleted_s=None, outcome=None)
    put(store_of(cloud.home), job("live-1", JobState.RUNNING, attempts=(running,)))
    put(store_of(cloud.home), job("done-1", JobState.FAILED))
    page = stranger.get("/metrics")
    assert page.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    gauges = [line for line in page.text.splitlines() if not line.startswith("#")]
    assert gauges[:2] == [
        'tpuctl_job_state{job="live-1",state="RUNNING"} 1', 'tpuctl_job_step{job="live-1"} 100',
    ]  # fmt: skip
    (watched,) = board.board.watches.slices
    old, new = ({"chip.duty_cycle_percent/0": percent} for percent in (7.0, 83.0))
    watched.worker(0).take_sample(Sample(T + 7200 - 5, new), 0.0)
    watched.worker(1).take_sample(Sample(T + 7200 - 60, old), 0.0)
    workers = [line for line in stranger.get("/metrics").text.splitlines() if "duty" in line][2:]
    assert workers == [
        'tpuctl_worker_chip_duty_cycle_percent{job="live-1",attempt="1",worker="0",'
        'node="digits-1-a1",zone="us-west4-a",device="0"} 83'
    ]


def test_web_pages_cannot_read_the_metrics_and_nobody_has_the_pages_by_them(stranger, browser):
    for headers in (
        {"Origin": browser.origin}, {"Origin": "http://evil.example"}, {"Host": "evil.example"},
        {"Sec_Fetch_Site": "same-site"},
    ):  # fmt: skip
        assert browser.get("/metrics", **headers).status == 403
    for path in ("/metrics/", "/metrics/../", "//metrics", "/metrics%2f..%2f"):
        assert stranger.get(path).status in (401, 404), path
