"""`tpuctl sweep`: orphans are found and deleted; what is not surely one is left alone."""

from dataclasses import replace

import pytest

from client.cli.job.job_records import attempt, job, put, store_of
from tpuctl.jobs.leases import lease
from tpuctl.jobs.record import record_store
from tpuctl.models.job import AttemptState, JobState, Teardown
from tpuctl.operations.audit import sweep as sweeping

CREATE = ("-t", "v5litepod-16", "--spot")
KEYS = [
    "name", "verdict", "noun", "zone", "accelerator_type", "state", "created", "usd_per_hour",
    "holds", "job", "owner", "nodes", "node_ids", "why", "outcome", "outcome_why",
]  # fmt: skip


@pytest.fixture
def store(cloud):
    return store_of(cloud.home)


def make(tpuctl, name: str, job_id: str | None = None, *more: str) -> None:
    """A slice that is ACTIVE, with the label of a job."""
    labels = ("--labels", f"tpuctl-job={job_id}") if job_id else ()
    assert tpuctl("qr", "create", name, *CREATE, *labels, *more).code == 0
    assert tpuctl("qr", "wait", name).code == 0


def verdicts(tpuctl, *argv: str) -> dict[str, str]:
    found = tpuctl("sweep", *argv, "-o", "json")
    return {each["name"]: each["verdict"] for each in found.json["slices"]}


def requests(tpuctl) -> list[str]:
    return tpuctl("qr", "list", "-o", "name").out.split()


def test_what_an_ended_job_left_is_an_orphan_and_costs(tpuctl, store):
    put(store, job())
    make(tpuctl, "left", "digits-1")
    result = tpuctl("sweep", "-o", "json")
    assert result.code == 0
    (row,) = result.json["slices"]
    assert list(row) == KEYS
    assert (row["verdict"], row["job"], row["nodes"]) == ("orphan", "digits-1", ["left"])
    assert (row["usd_per_hour"], row["why"]) == (9.712, "job digits-1 is FAILED")
    assert result.json["usd_per_hour"] == {"orphan": 9.712}
    assert result.err.splitlines() == [
        "warning: 1 orphan costs 9.71 USD/h; delete with: tpuctl sweep --fix"
    ]
    assert requests(tpuctl) == ["left"], "looking changes nothing"


def test_fix_asks_and_deletes_it(tpuctl, store):
    put(store, job())
    make(tpuctl, "left", "digits-1")
    asked = tpuctl("sweep", "--fix")
    assert asked.code == 80
    assert "Delete left in context 'local' (1 orphan costs 9.71 USD/h)" in asked.err
    done = tpuctl("sweep", "--fix", "--yes")
    assert (done.code, done.err.splitlines()[-1]) == (0, "deleted qr 'left'")
    assert tpuctl("node", "list").out == tpuctl("qr", "list").out == ""


def test_fix_in_json_says_what_became_of_each(tpuctl, store):
    put(store, job())
    make(tpuctl, "left", "digits-1")
    make(tpuctl, "mine")
    result = tpuctl("sweep", "--fix", "--yes", "-o", "json")
    assert result.code == 0
    outcomes = [(row["name"], row["outcome"]) for row in result.json["slices"]]
    assert outcomes == [("left", "deleted"), ("mine", None)]


def test_a_node_without_a_request_can_be_an_orphan(tpuctl, store):
    put(store, job())
    argv = ("node", "create", "n1", *CREATE, "--labels", "tpuctl-job=digits-1")
    assert tpuctl(*argv).code == 0
    assert verdicts(tpuctl) == {"n1": "orphan"}
    assert tpuctl("sweep", "--fix", "--yes").code == 0
    assert tpuctl("node", "list").out == ""


def test_made_by_hand_is_listed_with_its_price_and_never_deleted(tpuctl):
    make(tpuctl, "mine")
    row = tpuctl("sweep", "-o", "json").json["slices"][0]
    assert (row["verdict"], row["usd_per_hour"], row["job"]) == ("by-hand", 9.712, None)
    assert tpuctl("sweep", "--fix", "--yes").code == 0
    assert requests(tpuctl) == ["mine"]


def test_what_a_live_job_uses_is_in_use_whoever_made_it(tpuctl, store):
    running = job(state=JobState.RUNNING)
    named = attempt(
        node="mine", owned=False, queued_resource=None, ended_s=None, state=AttemptState.RUNNING
    )
    put(store, running)
    put(store, job("other-2", state=JobState.RUNNING, node="mine", attempts=(named,)))
    make(tpuctl, "own", "digits-1")
    make(tpuctl, "mine")
    assert verdicts(tpuctl) == {"own": "in-use", "mine": "in-use"}
    assert tpuctl("sweep", "--fix", "--yes").code == 0
    assert sorted(requests(tpuctl)) == ["mine", "own"]


def test_a_slice_that_a_job_names_is_in_use_before_it_begins(tpuctl, store):
    put(store, job())
    put(store, job("next-2", state=JobState.QUEUED, node="left"))
    make(tpuctl, "left", "digits-1")
    assert verdicts(tpuctl, "--fix", "--yes") == {"left": "in-use"}
    assert requests(tpuctl) == ["left"]


def test_another_persons_orphan_is_theirs_unless_asked_for(tpuctl, store):
    put(store, job(owner="ada@lab"))
    make(tpuctl, "left", "digits-1")
    assert verdicts(tpuctl) == {"left": "other-owner"}
    assert tpuctl("sweep", "--fix", "--yes").code == 0
    assert requests(tpuctl) == ["left"]
    assert verdicts(tpuctl, "--all-owners") == {"left": "orphan"}
    assert tpuctl("sweep", "--all-owners", "--fix", "--yes").code == 0
    assert requests(tpuctl) == []


def test_a_job_of_another_bucket_is_unknown(tpuctl):
    make(tpuctl, "theirs", "elsewhere-9")
    (row,) = tpuctl("sweep", "-o", "json").json["slices"]
    assert row["verdict"] == "unknown"
    assert row["why"] == ("this bucket has no record of job elsewhere-9: another bucket's, or lost")
    assert tpuctl("sweep", "--fix", "--yes").code == 0
    assert requests(tpuctl) == ["theirs"]


def test_a_record_that_cannot_be_read_makes_it_unknown(tpuctl, store):
    store.put_if_absent("tpuctl/records/digits-1", b"{")
    make(tpuctl, "left", "digits-1")
    assert verdicts(tpuctl, "--fix", "--yes") == {"left": "unknown"}
    assert requests(tpuctl) == ["left"]


def test_a_bucket_that_cannot_be_read_makes_it_unknown_and_fails(tpuctl, cloud, store):
    put(store, job())
    make(tpuctl, "left", "digits-1")
    assert tpuctl("local", "fault", "storage.objects.list: return-403").code == 0
    result = tpuctl("sweep", "--fix", "--yes", "-o", "json")
    assert result.code == 21
    (row,) = result.json["slices"]
    assert row["verdict"] == "unknown"
    assert row["why"].startswith("the bucket cannot be read: ")
    assert requests(tpuctl) == ["left"]


def test_a_zone_that_does_not_answer_makes_it_unknown(tpuctl, cloud, store):
    put(store, job())
    open_one = attempt(
        node="left", queued_resource="left", deleted_s=None, ended_s=None, outcome=None
    )
    put(store, job("wide-2", state=JobState.RUNNING, attempts=(open_one,)))
    make(tpuctl, "left", "digits-1")
    assert tpuctl("local", "fault", "zone us-west4-a: unreachable").code == 0
    result = tpuctl("sweep", "--fix", "--yes", "-o", "json")
    assert result.json["unreachable"] == ["us-west4-a"]
    assert [row["verdict"] for row in result.json["slices"]] == ["unknown"]
    assert "us-west4-a did not answer: what is there is unknown" in result.err
    assert result.code == 70


def test_a_suspended_request_says_how_much_quota_it_holds(tpuctl, store):
    put(store, job())
    make(tpuctl, "left", "digits-1")
    assert tpuctl("node", "delete", "left", "--node-only", "--yes").code == 0
    tpuctl("qr", "wait", "left")
    result = tpuctl("sweep", "-o", "json")
    (row,) = result.json["slices"]
    assert (row["state"], row["usd_per_hour"], row["holds"]) == ("SUSPENDED", 0, "16 chips")
    assert "1 orphan costs 0.00 USD/h and holds quota for nothing (16 chips)" in result.err
    assert tpuctl("sweep", "--fix", "--yes").code == 0
    assert requests(tpuctl) == []


@pytest.fixture
def meanwhile(monkeypatch):
    """`meanwhile(change)`: it happens between the list and the second look."""

    def install(change) -> None:
        again = sweeping.reread_holding

        def changed(*args):
            change()
            return again(*args)

        monkeypatch.setattr(sweeping, "reread_holding", changed)

    return install


def test_a_job_that_was_retried_meanwhile_keeps_its_slice(tpuctl, store, meanwhile):
    stored = record_store.load(store, put(store, job()).job_id)
    make(tpuctl, "left", "digits-1")
    again = job(state=JobState.RUNNING)
    meanwhile(lambda: record_store.save(store, again, stored.generation))
    result = tpuctl("sweep", "--fix", "--yes")
    assert result.code == 0
    assert result.err.splitlines()[-1] == "left qr 'left' alone: job digits-1 is RUNNING"
    assert requests(tpuctl) == ["left"]


def test_a_slice_that_was_made_anew_meanwhile_is_left_alone(tpuctl, store, meanwhile):
    put(store, job())
    make(tpuctl, "left", "digits-1")

    def again() -> None:
        assert tpuctl("qr", "delete", "left", "--force", "--yes").code == 0
        make(tpuctl, "left", "digits-1")

    meanwhile(again)
    result = tpuctl("sweep", "--fix", "--yes")
    assert (result.code, requests(tpuctl)) == (0, ["left"])
    assert "left qr 'left' alone: it " in result.err


def test_a_slice_that_went_meanwhile_is_no_failure(tpuctl, store, meanwhile):
    put(store, job())
    make(tpuctl, "left", "digits-1")
    meanwhile(lambda: tpuctl("qr", "delete", "left", "--force", "--yes"))
    result = tpuctl("sweep", "--fix", "--yes")
    assert (result.code, result.err.splitlines()[-1]) == (0, "qr 'left' was gone already")


def test_one_that_cannot_be_deleted_is_a_partial_failure(tpuctl, cloud, store):
    put(store, job())
    make(tpuctl, "first", "digits-1")
    make(tpuctl, "second", "digits-1")
    fault = "DeleteQueuedResource: PERMISSION_DENIED x1"
    assert tpuctl("local", "fault", fault).code == 0
    result = tpuctl("sweep", "--fix", "--yes", "-o", "json")
    assert result.code == 70
    outcomes = [row["outcome"] for row in result.json["slices"]]
    assert outcomes == ["failed", "deleted"]
    assert requests(tpuctl) == ["first"]


def test_an_empty_project_has_nothing_to_sweep(tpuctl):
    result = tpuctl("sweep")
    assert (result.out, result.err) == ("", "nothing is left behind: no orphans\n")
    result = tpuctl("sweep", "-o", "json")
    assert result.json == {"slices": [], "usd_per_hour": {}, "unreachable": []}
    assert (tpuctl("sweep", "--fix", "--yes").code, result.err) == (0, "")


def test_what_a_live_supervisor_is_deleting_is_left_to_it(tpuctl, store):
    gone = attempt(node="left", queued_resource="left", deleted_s=None)
    put(store, job(attempts=(gone,)))
    held = lease.load_lease(store, "digits-1")
    lease.take(store, held, "lab-1")
    store.put_if_absent(f"{lease.HEARTBEATS}lab-1", b'{"host": "lab"}')
    make(tpuctl, "left", "digits-1")
    assert verdicts(tpuctl, "--fix", "--yes") == {"left": "leaving"}
    store.delete(f"{lease.HEARTBEATS}lab-1")
    assert verdicts(tpuctl) == {"left": "orphan"}


def test_a_request_for_several_slices_is_one_orphan_with_the_price_of_all(tpuctl, store):
    put(store, job())
    make(tpuctl, "pair", "digits-1", "--node-count", "2")
    (row,) = tpuctl("sweep", "-o", "json").json["slices"]
    assert (row["nodes"], row["usd_per_hour"]) == (["pair-0", "pair-1"], 2 * 9.712)
    assert tpuctl("sweep", "--fix", "--yes").code == 0
    assert tpuctl("node", "list").out == ""


@pytest.mark.parametrize(
    ("teardown", "state"), [("never", JobState.SUCCEEDED), ("on-success", JobState.FAILED)]
)
def test_a_slice_that_the_job_was_told_to_keep_is_deleted_only_when_named(
    tpuctl, store, teardown, state
):
    last = attempt(node="kept", queued_resource="kept", deleted_s=None, outcome=None)
    found = job(state=state, attempts=(last,))
    put(store, replace(found, spec=replace(found.spec, teardown=Teardown(teardown))))
    make(tpuctl, "kept", "digits-1")
    make(tpuctl, "lost", "digits-1")
    rows = {row["name"]: row for row in tpuctl("sweep", "-o", "json").json["slices"]}
    assert {name: row["verdict"] for name, row in rows.items()} == {
        "kept": "kept",
        "lost": "orphan",
    }
    assert rows["kept"]["why"] == f"job digits-1 is {state}; kept by teardown: {teardown}"
    assert tpuctl("sweep", "--fix", "--yes").code == 0
    assert requests(tpuctl) == ["kept"]
    refused = tpuctl("job", "delete", "digits-1", "--yes")
    assert (refused.code, refused.err) == (
        12,
        f"error: job 'digits-1' keeps slice 'kept' (teardown: {teardown})\n"
        "hint: run: tpuctl sweep --fix kept\n",
    )
    asked = tpuctl("sweep", "--fix", "kept")
    assert (asked.code, requests(tpuctl)) == (80, ["kept"])
    assert "Delete kept in context 'local' (1 slice costs 9.71 USD/h)" in asked.err
    named = tpuctl("sweep", "--fix", "kept", "--yes")
    assert (named.code, named.err.splitlines()[-1]) == (0, "deleted qr 'kept'")
    assert requests(tpuctl) == []


def test_a_name_must_be_that_of_an_orphan_or_of_what_is_kept(tpuctl):
    make(tpuctl, "mine")
    by_hand = tpuctl("sweep", "--fix", "mine", "--yes")
    assert (by_hand.code, requests(tpuctl)) == (12, ["mine"])
    assert by_hand.err == (
        "error: 'mine' is by-hand: no job made it\n"
        "hint: to delete it anyway: tpuctl qr delete mine\n"
    )
    assert tpuctl("sweep", "--fix", "nowhere", "--yes").code == 10
    without = tpuctl("sweep", "mine")
    assert (without.code, without.err.splitlines()[-1]) == (
        2,
        "hint: run: tpuctl sweep --fix mine",
    )
