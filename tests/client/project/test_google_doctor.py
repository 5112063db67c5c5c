"""The doctor with credentials, over TLS: what it says to an account that may do little."""

import pytest

from client.google import google_fixtures
from client.google.google_fixtures import cloud, save, tpuctl  # noqa: F401

pytest_plugins = ("client.google.google_server",)

MEMBER = "serviceAccount:{}@local-project.iam.gserviceaccount.com"


@pytest.fixture
def doctor(cloud, tpuctl):  # noqa: F811
    """`doctor(account)` is the lines about the project, by name, for an account."""
    base = cloud.line["google"]["token"].removesuffix("/token")
    keys = ("resourcemanager", "billing", "iam", "compute", "serviceusage")

    def ask(account):
        endpoints = {f"{key}_endpoint": base for key in keys}
        known = [google_fixtures.context(cloud, one) for one in cloud.line["google"]["keys"]]
        own = google_fixtures.context(cloud, account, name="examined", **endpoints)
        local = google_fixtures.context(cloud, "admin", name="local")
        save(cloud.home, local, *known, own)
        try:
            return {line["check"]: line for line in reversed(tpuctl(*ARGV).json)}
        finally:
            save(cloud.home, local, *known)

    return ask


ARGV = ("doctor", "-c", "examined", "-o", "json")


def test_the_fix_names_the_account_of_the_credentials(doctor):
    line = doctor("viewer")["permissions in the project"]
    assert line["evidence"].startswith("you may not create slices: node create, qr create,")
    member = MEMBER.format("viewer")
    assert line["fix"] == (
        f"gcloud projects add-iam-policy-binding local-project --member={member} "
        "--role=roles/tpu.admin"
    )
    line = doctor("viewer")["permissions on the bucket"]
    assert (line["state"], line["fix"]) == (
        "fail",
        f"gcloud storage buckets add-iam-policy-binding gs://local-bucket --member={member} "
        "--role=roles/storage.objectUser",
    )


def test_what_may_not_be_asked_is_unknown_and_decides_nothing(doctor):
    lines = doctor("nobody")
    assert lines["project"]["state"] == lines["billing"]["state"] == "unknown"
    assert lines["quota"]["state"] == "unknown"
    assert lines["quota"]["evidence"].startswith("no permission to ask: the quotas of project")
    assert lines["billing"]["evidence"].startswith("no permission to ask: the billing of project")
    assert lines["permissions in the project"]["state"] == "fail"
