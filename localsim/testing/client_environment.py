"""The environment variables that point other programs at a simulated cloud."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

VARIABLES: Mapping[str, str] = MappingProxyType(
    {
        "STORAGE_EMULATOR_HOST": "{storage}",
        # TensorStore's; without a token it looks for credentials of the machine.
        "TENSORSTORE_GCS_HTTP_URL": "{storage}",
        "GOOGLE_AUTH_TOKEN_FOR_TESTING": "none",
        "GCSFS_DEFAULT_PROJECT": "{project}",
        # gcsfs would ask over gRPC what kind of bucket it has, for a minute.
        "GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT": "false",
        # rclone's remote `local:`.
        "RCLONE_CONFIG_LOCAL_TYPE": "google cloud storage",
        "RCLONE_CONFIG_LOCAL_ENDPOINT": "{storage}/storage/v1/",
        "RCLONE_CONFIG_LOCAL_ANONYMOUS": "true",
        "RCLONE_CONFIG_LOCAL_BUCKET_POLICY_ONLY": "true",
        "RCLONE_CONFIG_LOCAL_PROJECT_NUMBER": "{project}",
        "CLOUDSDK_API_ENDPOINT_OVERRIDES_TPU": "{tpu_rest}/",
        "CLOUDSDK_API_ENDPOINT_OVERRIDES_STORAGE": "{storage}/storage/v1/",
        "CLOUDSDK_API_ENDPOINT_OVERRIDES_COMPUTE": "{compute}/compute/v1/",
        "CLOUDSDK_API_ENDPOINT_OVERRIDES_SERVICEUSAGE": "{serviceusage}/",
        "CLOUDSDK_API_ENDPOINT_OVERRIDES_CLOUDRESOURCEMANAGER": "{cloudresourcemanager}/",
        "CLOUDSDK_API_ENDPOINT_OVERRIDES_SECRETMANAGER": "{secretmanager}/",
        "CLOUDSDK_API_ENDPOINT_OVERRIDES_LOGGING": "{logging}/",
        "CLOUDSDK_API_ENDPOINT_OVERRIDES_MONITORING": "{monitoring}/",
        "CLOUDSDK_API_ENDPOINT_OVERRIDES_CLOUDBILLING": "{cloudbilling}/",
        "CLOUDSDK_API_ENDPOINT_OVERRIDES_CLOUDQUOTAS": "{cloudquotas}/",
        "CLOUDSDK_API_ENDPOINT_OVERRIDES_IAM": "{iam}/",
        "CLOUDSDK_AUTH_DISABLE_CREDENTIALS": "true",
        "CLOUDSDK_CORE_PROJECT": "{project}",
        "CLOUDSDK_COMPUTE_ZONE": "{zone}",
        "GOOGLE_CLOUD_PROJECT": "{project}",
        "TPU_GRPC_ENDPOINT": "{tpu_grpc}",
    }
)
"""Name -> value, in which keys of the line of endpoints stand for their values.

`tpuctl local env` prints the same; a test compares the two.
"""


def client_environment(endpoints: Mapping[str, Any]) -> dict[str, str]:
    """The variables of the simulated cloud with this line of endpoints."""
    return {name: value.format_map(endpoints) for name, value in VARIABLES.items()}
