"""The APIs of Google's that the project can have, and what a refusal says of one that it lacks."""

from collections.abc import Mapping

from localsim.rules.model.cloud_errors import CloudError, Code, ErrorInfo

TPU = "tpu.googleapis.com"
TITLES: Mapping[str, str] = {
    TPU: "Cloud TPU API",
    "cloudbilling.googleapis.com": "Cloud Billing API",
    "cloudquotas.googleapis.com": "Cloud Quotas API",
    "cloudresourcemanager.googleapis.com": "Cloud Resource Manager API",
    "compute.googleapis.com": "Compute Engine API",
    "iam.googleapis.com": "Identity and Access Management (IAM) API",
    "iap.googleapis.com": "Cloud Identity-Aware Proxy API",
    "logging.googleapis.com": "Cloud Logging API",
    "monitoring.googleapis.com": "Cloud Monitoring API",
    "oslogin.googleapis.com": "Cloud OS Login API",
    "secretmanager.googleapis.com": "Secret Manager API",
    "serviceusage.googleapis.com": "Service Usage API",
    "storage.googleapis.com": "Cloud Storage API",
}
"""Every API that there is, by its service name."""
ALWAYS_ENABLED = ("serviceusage.googleapis.com", "storage.googleapis.com")
SWITCHED = tuple(name for name in TITLES if name not in (TPU, *ALWAYS_ENABLED))
"""The APIs that a scenario can lack by `disabled_apis`; Cloud TPU has a key of its own."""
_CONSOLE = "https://console.developers.google.com"


def disabled_error(service: str, project_number: int) -> CloudError:
    """The refusal, in Google's words, of a call of an API that the project has not enabled."""
    sentence = (
        f"{TITLES[service]} has not been used in project {project_number} before or it is "
        f"disabled. Enable it by visiting {_CONSOLE}/apis/api/{service}/overview?"
        f"project={project_number} then retry."
    )
    about = {"consumer": f"projects/{project_number}", "service": service}
    info = ErrorInfo("SERVICE_DISABLED", "googleapis.com", about)
    return CloudError(Code.PERMISSION_DENIED, sentence, info)
