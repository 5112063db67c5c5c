"""What the APIs around Cloud TPU answer, and what is made of refusals and of nonsense."""

from dataclasses import dataclass, field
from typing import Any

import pytest

from tpuctl.api.project import (
    billing,
    bucket_access,
    enabled_services,
    networks,
    resource_manager,
    service_accounts,
)
from tpuctl.api.tpu.rest import Reply
from tpuctl.errors import (
    CredentialsError,
    NotFoundError,
    PermissionDeniedError,
    TransientError,
)


@dataclass
class Api:
    """Answers one request after the other; an exception is raised."""

    answers: list[Any]
    asked: list[tuple[str, str, Any]] = field(default_factory=list)

    def request(self, method, path, document=None):
        self.asked.append((method, path, document))
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer if isinstance(answer, Reply) else Reply(200, answer)


def refused(status, message="", reason=""):
    details = [{"reason": reason, "metadata": {"service": "iam.googleapis.com"}}]
    return Reply(status, {"error": {"code": status, "message": message, "details": details}})


@pytest.mark.parametrize(
    ("answer", "kind", "text"),
    [
        (refused(403, "no"), PermissionDeniedError, "project p: no"),
        (refused(404, "gone\nfor ever"), NotFoundError, "project p: gone"),
        (refused(401), CredentialsError, "project p: HTTP 401"),
        (Reply(502, {"error": "proxy"}), TransientError, "project p: HTTP 502"),
        (ConnectionError("reset"), TransientError, "project p cannot be asked for: reset"),
    ],
)
def test_a_refusal_is_an_error_that_says_what_was_asked(answer, kind, text):
    with pytest.raises(kind) as caught:
        resource_manager.read_project(Api([answer]), "p")
    assert str(caught.value) == text


def test_an_api_that_is_not_enabled_is_named_with_the_command_that_enables_it():
    with pytest.raises(PermissionDeniedError) as caught:
        service_accounts.may_act_as(Api([refused(403, "off", "SERVICE_DISABLED")]), "a@b")
    assert str(caught.value).endswith("the API iam.googleapis.com is not enabled")
    assert caught.value.hint == "run: gcloud services enable iam.googleapis.com"


def test_a_hundred_permissions_are_tested_at_once():
    wanted = [f"tpu.nodes.p{number}" for number in range(150)]
    api = Api([{"permissions": wanted[:1]}, {"permissions": wanted[-1:]}])
    granted = resource_manager.granted_permissions(api, "p", wanted)
    assert granted == {wanted[0], wanted[-1]}
    assert [len(body["permissions"]) for _, _, body in api.asked] == [100, 50]


def test_a_role_with_a_condition_is_not_held_for_certain():
    bindings = [
        {"role": "roles/a", "members": ["user:x", "user:y"]},
        {"role": "roles/b", "members": ["user:x"], "condition": {"expression": "false"}},
    ]
    found = resource_manager.roles_by_member(Api([{"bindings": bindings}]), "p")
    assert found == {"user:x": {"roles/a"}, "user:y": {"roles/a"}}


def test_only_open_billing_accounts_can_be_linked():
    accounts = [{"name": "billingAccounts/A", "open": True}, {"name": "billingAccounts/B"}]
    assert billing.open_accounts(Api([{"billingAccounts": accounts}])) == ["A"]
    assert not billing.is_billing_enabled(Api([{"billingAccountName": ""}]), "p")


def test_services_are_read_from_all_pages():
    pages = [
        {"services": [{"config": {"name": "tpu.googleapis.com"}}], "nextPageToken": "2"},
        {"services": [{"name": "projects/1/services/iam.googleapis.com"}]},
    ]
    api = Api(pages)
    found = enabled_services.enabled_services(api, "p")
    assert found == {"tpu.googleapis.com", "iam.googleapis.com"}
    assert api.asked[1][1].endswith("&pageToken=2")


RULE = {
    "name": "ssh",
    "network": "https://x/global/networks/train",
    "allowed": [{"IPProtocol": "TCP", "ports": ["20-30", "443"]}, {"IPProtocol": "icmp"}],
    "sourceRanges": ["10.0.0.0/8"],
}


def test_a_rule_admits_the_ports_of_its_ranges():
    (rule,) = networks.ingress_rules(Api([{"items": [RULE]}]), "p")
    assert (rule.name, rule.network, rule.sources) == ("ssh", "train", ("10.0.0.0/8",))
    assert [port for port in (19, 20, 22, 30, 31, 443) if rule.admits("tcp", port)] == [
        *(20, 22, 30, 443),
    ]
    assert not rule.admits("udp", 22)


@pytest.mark.parametrize(
    "change",
    [
        {"disabled": True},
        {"direction": "EGRESS"},
        {"targetTags": ["web"]},
        {"targetServiceAccounts": ["a@b"]},
        {"allowed": []},
    ],
    ids=str,
)
def test_a_rule_that_lets_nobody_in_to_all_machines_does_not_count(change):
    assert networks.ingress_rules(Api([{"items": [{**RULE, **change}]}]), "p") == []


def test_a_network_without_a_cloud_nat_of_its_own_has_none():
    routers = [
        {"network": "https://x/networks/other", "nats": [{"name": "n"}]},
        {"network": "https://x/networks/train"},
    ]
    assert not networks.has_nat(Api([{"items": routers}]), "p", "us-west4", "train")
    assert networks.has_nat(Api([{"items": routers}]), "p", "us-west4", "other")


@pytest.mark.parametrize(
    "ask",
    [
        lambda api: networks.ingress_rules(api, "p"),
        lambda api: resource_manager.roles_by_member(api, "p"),
        lambda api: bucket_access.bucket_roles_by_member(api, "b"),
        lambda api: bucket_access.facts_of_bucket(api, "b"),
        lambda api: enabled_services.enabled_services(api, "p"),
        lambda api: networks.has_nat(api, "p", "us-west4", "default"),
        lambda api: networks.project_metadata(api, "p"),
        lambda api: billing.open_accounts(api),
    ],
)
def test_an_answer_of_another_shape_is_said_not_to_be_understood(ask):
    keys = ("items", "bindings", "services", "billingAccounts", "commonInstanceMetadata")
    with pytest.raises(TransientError, match="is not understood"):
        ask(Api([dict.fromkeys(keys, 7) | {"versioning": 7}]))


def test_the_names_of_a_path_are_quoted():
    api = Api([{"permissions": []}])
    bucket_access.granted_on_bucket(api, "b/../c", ["storage.objects.get"])
    assert api.asked[0][1].startswith("/storage/v1/b/b%2F..%2Fc/iam/testPermissions?permissions=")
