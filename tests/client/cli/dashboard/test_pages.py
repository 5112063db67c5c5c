"""What the pages of the dashboard say."""

import html
import re

from client.cli.dashboard.serving import Answer
from client.cli.job.job_records import attempt, job, put, store_of
from tpuctl.models.job import AttemptState, JobState


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
    assert "n1 READY v5litepod-16 us-west4-a 4 - " in seen
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
