"""IAM: the service account that workers act as.

https://cloud.google.com/iam/docs/reference/rest/v1/projects.serviceAccounts
"""

from urllib.parse import quote

from tpuctl.api.answers import ask
from tpuctl.api.project.resource_manager import permissions_in
from tpuctl.api.tpu.rest import RestApi

ACT_AS = "iam.serviceAccounts.actAs"


def is_account_enabled(rest: RestApi, email: str) -> bool:
    """Whether the account is not disabled; raises NotFoundError and what else `ask` raises."""
    return not ask(rest, "GET", _path(email), f"service account {email}").get("disabled")


def may_act_as(rest: RestApi, email: str) -> bool:
    """Whether the caller may give the account to slices; raises what `ask` raises."""
    about = f"the permissions on service account {email}"
    path = f"{_path(email)}:testIamPermissions"
    return ACT_AS in permissions_in(ask(rest, "POST", path, about, {"permissions": [ACT_AS]}))


def _path(email: str) -> str:
    return f"/v1/projects/-/serviceAccounts/{quote(email, safe='@')}"
