"""The lines about credentials, and of what is asked with them."""

import pytest

from tpuctl.config import Context
from tpuctl.errors import CredentialsError, PermissionDeniedError, TransientError
from tpuctl.operations.health.checks import context_access
from tpuctl.operations.health.doctor import run_checks
from tpuctl.operations.health.scope import DoctorClients, DoctorScope

LAB = Context("lab", "p", "us-west4-a", "b", credentials="/keys/robot.json")
LOGIN = "gcloud auth application-default login"
ROBOT = "serviceAccount:robot@p.iam.gserviceaccount.com"
ENABLE = "gcloud services enable tpu.googleapis.com --project=p"
MISSING = PermissionDeniedError(
    "Permission 'tpu.nodes.list' denied on project", hint="an owner runs: gcloud projects"
)
DISABLED = PermissionDeniedError("the Cloud TPU API is not enabled", hint=f"run: {ENABLE}")
UNPAID = PermissionDeniedError("no active billing account", hint="run: tpuctl doctor")


class RobotTokens:
    """Tokens of a key file, which are given or refused."""

    account = "robot@p.iam.gserviceaccount.com"

    def __init__(self, error=None):
        self.error = error

    def apply(self, headers, timeout_s):
        if self.error:
            raise self.error


class Api:
    """The Cloud TPU API, which answers or refuses."""

    def __init__(self, error=None):
        self.error = error

    def list_zones(self):
        if self.error:
            raise self.error
        return ["us-west4-a"]

    def list_nodes(self, zone):
        return (self.list_zones(), [])


class Bucket(Api):
    def list(self, prefix):
        return iter(self.list_zones())


def lines(tmp_path, tokens=None, api=None, bucket=None):
    def give_tokens():
        if isinstance(tokens, Exception):
            raise tokens
        return tokens or RobotTokens()

    clients = DoctorClients(give_tokens, lambda: api or Api(), lambda: bucket or Bucket())
    scope = DoctorScope(tmp_path, {}, lambda: 0.0, LAB, clients)
    found = run_checks(context_access.CHECKS, scope)
    return {
        line.name: (line.state.value, line.evidence, line.fix, line.exit_code) for line in found
    }


def test_all_is_well(tmp_path):
    assert lines(tmp_path) == {
        "credentials": (
            "pass", "the key file /keys/robot.json of robot@p.iam.gserviceaccount.com", None, 0,
        ),
        "project and Cloud TPU API": ("pass", "p: 1 zones", None, 0),
        "permission to list nodes": ("pass", "us-west4-a: 1 node", None, 0),
        "bucket": ("pass", "gs://b", None, 0),
    }  # fmt: skip


def test_without_credentials_one_line_fails_and_nothing_else_is_asked(tmp_path):
    absent = CredentialsError("no credentials: adc.json is not there", hint=f"run: {LOGIN}")
    found = lines(tmp_path, tokens=absent, api=Api(AssertionError("it is asked")))
    assert found.pop("credentials") == ("fail", str(absent), LOGIN, 20)
    unasked = ("unknown", "not asked: there are no credentials", None, 0)
    assert set(found.values()) == {unasked}


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (
            CredentialsError("the credentials are refused: expired", hint=f"run: {LOGIN}"),
            ("fail", "the credentials are refused: expired", LOGIN, 20),
        ),
        (
            CredentialsError("they are refused", hint="check the key file /keys/robot.json"),
            ("fail", "they are refused", None, 20),
        ),
        (
            TransientError("cannot get an access token: timed out", hint="check the network"),
            ("unknown", "cannot get an access token: timed out", None, 40),
        ),
    ],
)
def test_a_token_that_does_not_come(tmp_path, error, expected):
    assert lines(tmp_path, tokens=RobotTokens(error))["credentials"] == expected


def test_an_api_that_is_off_names_its_command_in_both_lines(tmp_path):
    found = lines(tmp_path, api=Api(DISABLED))
    expected = ("fail", "the Cloud TPU API is not enabled", ENABLE, 21)
    assert found["project and Cloud TPU API"] == expected
    assert found["permission to list nodes"] == expected


def test_a_role_that_is_missing_is_granted_to_the_account_of_the_credentials(tmp_path):
    found = lines(tmp_path, api=Api(MISSING), bucket=Bucket(PermissionDeniedError("403")))
    assert {name: line[2] for name, line in found.items() if line[0] == "fail"} == {
        "project and Cloud TPU API": f"gcloud projects add-iam-policy-binding p --member={ROBOT}"
        " --role=roles/tpu.viewer",
        "permission to list nodes": f"gcloud projects add-iam-policy-binding p --member={ROBOT}"
        " --role=roles/tpu.admin",
        "bucket": f"gcloud storage buckets add-iam-policy-binding gs://b --member={ROBOT}"
        " --role=roles/storage.objectUser",
    }


def test_the_doctor_is_no_fix_of_its_own_lines(tmp_path):
    state, _, fix, code = lines(tmp_path, api=Api(UNPAID))["permission to list nodes"]
    assert (state, fix, code) == ("fail", None, 21)
