"""What the checks of the project make of Google's answers, where no simulated project is so."""

from types import SimpleNamespace

import pytest

from tpuctl.api.tpu.rest import Reply
from tpuctl.config import Config, Context, save
from tpuctl.models.health import HealthState
from tpuctl.operations.health.checks.cloud import (
    bucket_place,
    permissions,
    project_setup,
    worker_account,
    worker_network,
)
from tpuctl.operations.health.scope import DoctorScope

CONTEXT = Context("mine", "demo", "us-west4-a", "box")
WORKER = "serviceAccount:7-compute@developer.gserviceaccount.com"


class Google:
    """Answers each request by the end of its path; what is not named is not found."""

    def __init__(self, answers, account=None):
        self._answers = answers
        self._account = account

    def tokens(self):
        return SimpleNamespace(account=self._account)

    def rest(self, _endpoint):
        return self

    def close(self):
        pass

    def request(self, _method, path, _document=None):
        for end, answer in self._answers.items():
            if path.partition("?")[0].endswith(end):
                return answer if isinstance(answer, Reply) else Reply(200, answer)
        return Reply(404, {"error": {"code": 404, "message": "Not found"}})


def ask(check, home, answers, context=CONTEXT, account=""):
    clients = Google(answers, account)
    return list(check(DoctorScope(home, {}, lambda: 0.0, context, clients)))


def test_a_project_on_its_way_out_can_be_called_back(tmp_path):
    answers = {"projects/demo": {"projectNumber": "7", "lifecycleState": "DELETE_REQUESTED"}}
    (line,) = ask(project_setup.ask_project_state, tmp_path, answers)
    assert (line.state, line.evidence) == (HealthState.FAIL, "demo is DELETE_REQUESTED")
    assert line.fix == "gcloud projects undelete demo"


@pytest.mark.parametrize(
    ("accounts", "evidence", "fix"),
    [
        ([], "nor do you see one that it could have (console: Billing)", None),
        (
            ["A", "B"],
            "project demo has no open billing account; you see A, B",
            "gcloud billing projects link demo --billing-account=A",
        ),
    ],
)
def test_who_could_pay_is_named(tmp_path, accounts, evidence, fix):
    listed = [{"name": f"billingAccounts/{name}", "open": True} for name in accounts]
    answers = {"billingInfo": {}, "billingAccounts": {"billingAccounts": listed}}
    (line,) = ask(project_setup.ask_billing, tmp_path, answers)
    assert line.evidence.endswith(evidence)
    assert line.fix == fix


@pytest.mark.parametrize(
    ("account", "member"),
    [
        ("me@x.org", "user:me@x.org"),
        ("a@p.iam.gserviceaccount.com", "serviceAccount:a@p.iam.gserviceaccount.com"),
        ("", 'user:"$(gcloud config get-value account)"'),
    ],
)
def test_a_role_is_granted_to_whom_the_credentials_belong(tmp_path, account, member):
    answers = {":testIamPermissions": {}}
    lines = ask(permissions.ask_project_permissions, tmp_path, answers, account=account)
    vital = [line.fix for line in lines if line.state == HealthState.FAIL]
    assert len(vital) == 4
    assert all(f"--member={member} --role=roles/tpu." in fix for fix in vital)


def test_a_group_may_let_workers_write_the_bucket(tmp_path):
    group = {"role": "roles/storage.admin", "members": ["group:ml@x.org"]}
    answers = {
        "projects/demo": {"projectNumber": "7"},
        ":getIamPolicy": {"bindings": [group]},
        "/iam": {},
    }
    (line,) = ask(worker_account.ask_bucket_rights, tmp_path, answers)
    assert line.state == HealthState.UNKNOWN
    assert line.evidence.endswith("(unless it is a member of group:ml@x.org)")


@pytest.mark.parametrize(
    ("on_bucket", "state"),
    [
        ([], HealthState.FAIL),
        (["roles/storage.legacyBucketOwner"], HealthState.PASS),
        (["roles/storage.legacyBucketReader"], HealthState.FAIL),
    ],
    ids=str,
)
def test_an_editor_writes_a_bucket_that_knows_editors(tmp_path, on_bucket, state):
    editors = ["projectEditor:demo"]
    answers = {
        "projects/demo": {"projectNumber": "7"},
        ":getIamPolicy": {"bindings": [{"role": "roles/editor", "members": [WORKER]}]},
        "/iam": {"bindings": [{"role": role, "members": editors} for role in on_bucket]},
    }
    (line,) = ask(worker_account.ask_bucket_rights, tmp_path, answers)
    assert line.state == state


def test_a_context_that_the_configuration_lacks_is_not_edited(tmp_path):
    far = {"b/box": {"location": "US-EAST1", "storageClass": "STANDARD"}}
    first = ask(bucket_place.ask_bucket_place, tmp_path, far)[0]
    assert (first.state, first.fix) == (HealthState.WARN, None)
    save(tmp_path, Config(None, {"mine": CONTEXT}))
    first = ask(bucket_place.ask_bucket_place, tmp_path, far)[0]
    assert first.fix.endswith("&& tpuctl context edit mine --bucket box-us-west4")


@pytest.mark.parametrize(
    ("sources", "dialer", "state"),
    [
        (["203.0.113.7/32"], "direct", HealthState.PASS),
        (["203.0.113.7/32"], "iap", HealthState.FAIL),
        (["35.235.240.0/20"], "iap", HealthState.PASS),
        (["35.235.240.0/20"], "internal", HealthState.FAIL),
        (["10.138.0.0/20"], "jump://bastion.example", HealthState.PASS),
        (["::/0"], "internal", HealthState.FAIL),
        ([], "direct", HealthState.FAIL),
    ],
    ids=str,
)
def test_a_rule_counts_by_where_the_dialer_comes_from(tmp_path, sources, dialer, state):
    rule = {
        "name": "ssh",
        "network": "networks/default",
        "allowed": [{"IPProtocol": "tcp", "ports": ["22"]}],
        "sourceRanges": sources,
    }
    answers = {"networks/default": {"name": "default"}, "firewalls": {"items": [rule]}}
    context = Context("mine", "demo", "us-west4-a", "box", dialer=dialer)
    _, line = ask(worker_network.ask_network, tmp_path, answers, context)
    assert line.state == state
