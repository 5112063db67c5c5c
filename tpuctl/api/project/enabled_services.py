"""Service Usage: which APIs the project has enabled.

https://cloud.google.com/service-usage/docs/reference/rest/v1/services/list
"""

from tpuctl.api.answers import ask_pages, parse_answer
from tpuctl.api.tpu.rest import RestApi


def enabled_services(rest: RestApi, project: str) -> frozenset[str]:
    """The names of the enabled APIs, as `tpu.googleapis.com`; raises what `ask` raises."""
    path = f"/v1/projects/{project}/services?filter=state:ENABLED&pageSize=200"
    about = f"the enabled APIs of project {project}"
    with parse_answer(about):
        return frozenset(
            str(service.get("config", {}).get("name") or str(service["name"]).rpartition("/")[2])
            for page in ask_pages(rest, path, about)
            for service in page.get("services", ())
        )
