"""Two answers are the same when only names, numbers and times differ."""

from localsim.check.answer_differences import differences


def found(recorded, answer):
    return list(differences(recorded, answer))


def test_ids_times_and_projects_are_no_difference():
    recorded = {
        "name": "projects/a/locations/z/nodes/n",
        "id": "1",
        "createTime": "2026-01-02T03:04:05Z",
    }
    answer = {
        "name": "projects/b/locations/z/nodes/n",
        "id": "2",
        "createTime": "2027-01-02T03:04:05.6Z",
    }
    assert found(recorded, answer) == []


def test_a_state_is():
    assert found({"state": "READY"}, {"state": "CREATING"}) == [
        "state: recorded 'READY', found 'CREATING'"
    ]


def test_what_one_side_lacks_is_named():
    assert found({"error": {"code": 9}}, {"response": {}}) == [
        "error: recorded {'code': 9}, found nothing",
        "response: recorded nothing, found {}",
    ]


def test_accounts_of_google_s_own_differ_in_more_than_their_number():
    compute = "1-compute@developer.gserviceaccount.com"
    assert (
        found({"email": "redacted@example.com"}, {"email": "me@lab.iam.gserviceaccount.com"}) == []
    )
    assert found({"email": compute}, {"email": "2-compute@developer.gserviceaccount.com"}) == []
    assert found({"email": compute}, {"email": "me@lab.iam.gserviceaccount.com"}) != []


def test_redacted_text_equals_any_text_but_nothing_else():
    assert found({"description": "redacted"}, {"description": "mine"}) == []
    assert found({"description": "redacted"}, {}) != []


def test_resources_are_compared_by_name_whatever_their_order():
    recorded = {
        "nodes": [{"name": "projects/a/nodes/x", "state": "READY"}, {"name": "projects/a/nodes/y"}]
    }
    answer = {
        "nodes": [{"name": "projects/b/nodes/y"}, {"name": "projects/b/nodes/x", "state": "READY"}]
    }
    assert found(recorded, answer) == []


def test_an_error_id_is_no_difference_and_its_sentence_is():
    assert found("no capacity [EID: 0x1f]", "no capacity [EID: 0x2e]") == []
    assert found("no capacity [EID: 0x1f]", "no quota [EID: 0x1f]") != []
