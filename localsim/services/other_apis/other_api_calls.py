"""The calls, table rows and refusals that all other APIs share."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from localsim.rules.model.cloud_errors import CloudError, Code
from localsim.rules.project.log_store import LogStore
from localsim.rules.project.project_metadata import ProjectMetadata
from localsim.rules.project.secret_store import SecretStore
from localsim.rules.project.worker_samples import WorkerSampleStore
from localsim.rules.scenario.google_apis import disabled_error
from localsim.rules.scenario.scenario import Scenario
from localsim.services.auth.iam import Account
from localsim.services.auth.signing_keys import SigningKeys
from localsim.services.tpu.calls import CloudPort

COMPUTE = "compute.googleapis.com"
SERVICE_USAGE = "serviceusage.googleapis.com"
RESOURCE_MANAGER = "cloudresourcemanager.googleapis.com"
LOGGING = "logging.googleapis.com"
MONITORING = "monitoring.googleapis.com"
SECRET_MANAGER = "secretmanager.googleapis.com"
BILLING = "cloudbilling.googleapis.com"
IAM = "iam.googleapis.com"
IAM_CREDENTIALS = "iamcredentials.googleapis.com"
QUOTAS = "cloudquotas.googleapis.com"


@dataclass(frozen=True, slots=True)
class ProjectContext:
    """The project and its cloud, as the other APIs need them."""

    id: str
    number: int
    metadata: ProjectMetadata
    secrets: SecretStore
    logs: LogStore
    samples: WorkerSampleStore
    signing_keys: SigningKeys
    """What service accounts sign with."""
    issue_token: Callable[[str, Sequence[str]], str]
    """From the address of a service account and some scopes to an access token."""
    cloud_port: CloudPort
    now: Callable[[], float]
    """Simulated seconds since the epoch."""
    scenario: Callable[[], Scenario]
    """The scenario in force."""

    def require_enabled(self, service: str) -> None:
        """Raise CloudError for an API that the project has not enabled."""
        if service in self.scenario().disabled_apis:
            raise disabled_error(service, self.number)

    def clear(self) -> None:
        """Delete the metadata, secrets, log entries, keys and samples, in one change."""
        with self.metadata.transaction():
            self.metadata.clear()
            self.secrets.clear()
            self.logs.clear()
            self.signing_keys.store.clear()
        self.samples.clear()


@dataclass(frozen=True, slots=True)
class ApiCall:
    """One request: the names in its path, its query, its JSON body."""

    project: ProjectContext
    names: Mapping[str, str]
    query: Mapping[str, str]
    body: Mapping[str, Any]
    origin: str
    """Scheme and host as the client used them."""
    account: Account | None
    """Who asks; None where nobody needs a token."""


@dataclass(frozen=True, slots=True)
class ApiMethod:
    """One method: `http` is `VERB path`; a `{project}` in it must be this project."""

    service: str
    name: str
    http: str
    permission: str
    answer: Callable[[ApiCall], Any]
    """The response, or an awaitable of it; raises CloudError or HttpRefusal."""


def api_methods(
    service: str, *rows: tuple[str, str, str, Callable[[ApiCall], Any]]
) -> tuple[ApiMethod, ...]:
    """The methods of a service, of which a row has all but the service."""
    return tuple(ApiMethod(service, *row) for row in rows)


class HttpRefusal(Exception):
    """A refusal for which google.rpc.Code has no word."""

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason
        self.message = message


def foreign_project_error(service: str, project: str) -> CloudError | HttpRefusal:
    """The refusal of a project that is not the caller's or does not exist."""
    if service == COMPUTE:
        return HttpRefusal(404, "notFound", f"The resource 'projects/{project}' was not found")
    return CloudError(Code.PERMISSION_DENIED, "The caller does not have permission")
