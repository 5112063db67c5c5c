"""Who pays for a request and who sends it, in the eyes of a bucket that looks at it."""

from types import SimpleNamespace

import pytest

from localsim.rules.objects.storage_model import Bucket, StorageError
from localsim.services.auth.iam import ANONYMOUS, Account
from localsim.services.storage.admission import check_admission
from localsim.services.storage.resources.access_resources import require_permission
from localsim.services.storage.wire.json_requests import ACCOUNT

PAID = {"billing": {"requesterPays": True}}
STRANGER = Account("stranger@p.iam.gserviceaccount.com", ("roles/storage.objectAdmin",))


class FakeRequest(dict):
    """A request of an account, from an address, with headers."""

    def __init__(self, account, address="127.0.0.1", **headers):
        super().__init__({ACCOUNT: account} if account else {})
        self.remote = address
        self.headers = headers


def admit(settings, account=None, *, method="storage.objects.get", query=(), **given):
    names = given.pop("names", {"bucket": "box"})
    call = SimpleNamespace(
        method=method, names=names, query=dict(query), request=FakeRequest(account, **given)
    )
    bucket = Bucket("box", "p", 1, 1, settings, 0.0, 0.0)
    check_admission({"box": bucket}, call)


def refusal(*args, **given):
    with pytest.raises(StorageError) as error:
        admit(*args, **given)
    return error.value.code, error.value.reason


def test_the_owner_pays_without_a_word():
    admit(PAID)
    admit(PAID, Account("o@p", ("roles/owner",)))
    for role in ("roles/storage.admin", "roles/billing.projectManager"):
        admit(PAID, Account("b@p", (role,)))


def test_another_account_names_a_project_that_it_may_bill():
    assert refusal(PAID, STRANGER) == (400, "required")
    assert refusal(PAID, STRANGER, query=[("userProject", "p")]) == (403, "forbidden")
    payer = Account("c@p", ("roles/storage.objectUser", "roles/serviceusage.serviceUsageConsumer"))
    admit(PAID, payer, query=[("userProject", "p")])
    admit(PAID, payer, **{"x-goog-user-project": "p"})
    assert refusal(PAID, payer) == (400, "required")


def test_who_has_no_account_cannot_pay():
    nobody = Account(ANONYMOUS, ("roles/storage.objectViewer",))
    wanted = (401, "AuthenticationRequiredRequesterPays")
    assert refusal(PAID, nobody, query=[("userProject", "p")]) == wanted


def test_both_buckets_of_a_copy_are_asked():
    assert refusal(PAID, STRANGER, names={"bucket": "free", "to_bucket": "box"})[0] == 400
    copied = {"x-goog-copy-source": "/box/a"}
    assert refusal(PAID, STRANGER, names={"bucket": "free"}, **copied)[0] == 400
    admit(PAID, STRANGER, names={"bucket": "free"})
    admit(PAID, STRANGER, names={})


def test_only_who_is_exempt_changes_a_filter_from_outside():
    filtered = {"ipFilter": {"mode": "Enabled"}}
    for method in ("storage.buckets.get", "storage.buckets.patch", "storage.buckets.delete"):
        admit(filtered, method=method)
        assert refusal(filtered, STRANGER, method=method) == (403, "forbidden")
    assert refusal(filtered, method="storage.buckets.update") == (403, "forbidden")


def test_a_permission_that_only_some_calls_need():
    def require(account):
        require_permission(
            SimpleNamespace(request=FakeRequest(account)), "storage.objects.setRetention"
        )

    require(None)
    require(STRANGER)
    with pytest.raises(StorageError) as error:
        require(Account("u@p", ("roles/storage.objectUser",)))
    assert error.value.code == 403
    assert error.value.message == (
        "u@p does not have storage.objects.setRetention access to the Google Cloud Storage object."
        " Permission 'storage.objects.setRetention' denied on resource (or it may not exist)."
    )
