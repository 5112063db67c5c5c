"""Cloud Billing: whether the project has an account that pays, and which accounts there are.

https://cloud.google.com/billing/docs/reference/rest/v1/projects/getBillingInfo
"""

from tpuctl.api.answers import ask, parse_answer
from tpuctl.api.tpu.rest import RestApi


def is_billing_enabled(rest: RestApi, project: str) -> bool:
    """Whether the project has an open billing account; raises what `ask` raises."""
    about = f"the billing of project {project}"
    return bool(
        ask(rest, "GET", f"/v1/projects/{project}/billingInfo", about).get("billingEnabled")
    )


def open_accounts(rest: RestApi) -> list[str]:
    """The ids of the open billing accounts that the caller sees; raises what `ask` raises."""
    found = ask(rest, "GET", "/v1/billingAccounts", "the billing accounts")
    with parse_answer("the billing accounts"):
        accounts = [each for each in found.get("billingAccounts", ()) if each.get("open")]
        return [str(each["name"]).rpartition("/")[2] for each in accounts]
