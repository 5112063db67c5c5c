"""What the pages can end, and who cannot make them do it."""

import html
import re
from urllib.parse import urlencode

import pytest

from client.cli.dashboard.serving import Browser
from client.cli.job.job_records import job, put, store_of
from tpuctl.jobs.record import record_store
from tpuctl.models.job import JobState
from tpuctl.operations.jobs import supervision


@pytest.fixture
def queued(cloud, monkeypatch):
    """A job that waits for a supervisor, and none starts."""
    monkeypatch.setattr(supervision, "start_supervisor", lambda _runtime: ())
    put(store_of(cloud.home), job("live-1", JobState.QUEUED, owner="ada@elsewhere"))
    return "/jobs/live-1/cancel"


def form_of(browser, path: str, **changes: str) -> str:
    """The form of a page as a person sends it, but for some fields."""
    page = browser.get(path)
    assert page.status == 200, page.text
    fields = re.findall(r'<input type="hidden" name="(\w+)" value="(.*?)">', page.text)
    name = html.unescape(re.search(r"Type (\S+) to confirm", page.text)[1])
    given = {key: html.unescape(value) for key, value in fields}
    return urlencode({**given, "name": name, **changes})


def is_cancelled(cloud) -> bool:
    return record_store.load(store_of(cloud.home), "live-1").record.cancel_requested_s is not None


def test_a_person_cancels_a_job_by_typing_its_name(browser, cloud, queued):
    assert "Cancel job live-1 in context local? It is QUEUED" in browser.get(queued).text
    done = browser.post(queued, form_of(browser, queued))
    assert (done.status, done.headers["location"]) == (303, "/jobs/live-1")
    assert "Job live-1 is being cancelled." in browser.get("/jobs/live-1").text
    assert "is being cancelled." not in browser.get("/jobs/live-1").text
    assert is_cancelled(cloud)


def test_no_other_page_can_cancel_it(browser, board, cloud, queued):
    form = form_of(browser, queued)
    other = Browser(board.port)
    other.sign_in(board.link)
    refused = {
        "no origin": browser.post(queued, form, Origin=None),
        "another origin": browser.post(queued, form, Origin="http://evil.example"),
        "another port": browser.post(queued, form, Origin="http://127.0.0.1:1"),
        "no page": browser.post(queued, form, Origin="null"),
        "another site": browser.post(queued, form, Sec_Fetch_Site="cross-site"),
        "text": browser.post(queued, form, Content_Type="text/plain"),
        "json": browser.post(queued, "{}", Content_Type="application/json"),
        "no cookie": browser.post(queued, form, Cookie=None),
        "another browser's form": other.post(queued, form),
        "a guess": browser.post(queued, form_of(browser, queued, csrf="x" * 43)),
        "no form": browser.post(queued, ""),
        "a long form": browser.post(queued, form + "&x=" + "x" * 20_000),
        "a rebound name": browser.post(queued, form, Host="evil.example"),
    }
    statuses = {why: answer.status for why, answer in refused.items()}
    assert set(statuses.values()) <= {401, 403, 413, 415}, statuses
    assert not is_cancelled(cloud)


def test_a_wrong_name_and_a_question_that_is_not_the_one_asked_do_nothing(browser, cloud, queued):
    wrong = browser.post(queued, form_of(browser, queued, name="live-2"))
    assert (wrong.status, "The name is not live-1: nothing was done." in wrong.text) == (400, True)
    other = browser.post(queued, form_of(browser, queued, asked="job live-2"))
    assert (other.status, "read the question again" in other.text) == (400, True)
    assert not is_cancelled(cloud)


def test_a_node_is_deleted_with_the_request_that_owns_it(browser, tpuctl):
    tpuctl("qr", "create", "big", "-t", "v5litepod-16", "--spot")
    tpuctl("qr", "wait", "big")
    path = "/nodes/us-west4-a/big/delete"
    asked = browser.get(path).text
    assert "Delete node big and queued resource big in context local? It costs 9.71 USD/h." in asked
    done = browser.post(path, form_of(browser, path))
    assert (done.status, done.headers["location"]) == (303, "/")
    assert "Node big is being deleted." in browser.get("/").text
    assert tpuctl("qr", "wait", "big").code != 0


def test_a_job_that_has_ended_is_not_cancelled(browser, cloud):
    put(store_of(cloud.home), job("done-1", JobState.SUCCEEDED))
    assert browser.get("/jobs/done-1/cancel").status == 409
