"""Google's names that lead to the simulator inside the VPC, and which server each one means."""

OTHER_APIS = "neighbours"
STORAGE_HOST = "storage.googleapis.com"
JSON_API_HOST = "www.googleapis.com"
"""An older name of Cloud Storage's JSON API and of other APIs; the XML API is not there."""
SERVICE_OF = {
    STORAGE_HOST: "storage",
    JSON_API_HOST: "storage",
    "tpu.googleapis.com": "tpu_rest",
    **dict.fromkeys(
        (
            "cloudbilling.googleapis.com",
            "cloudkms.googleapis.com",
            "cloudquotas.googleapis.com",
            "cloudresourcemanager.googleapis.com",
            "compute.googleapis.com",
            "iam.googleapis.com",
            "iamcredentials.googleapis.com",
            "logging.googleapis.com",
            "monitoring.googleapis.com",
            "oauth2.googleapis.com",
            "pubsub.googleapis.com",
            "secretmanager.googleapis.com",
            "serviceusage.googleapis.com",
        ),
        OTHER_APIS,
    ),
}
"""Host name -> the name of the server; what that one lacks it refuses by name."""
HTTPS_PORT = 443
BUCKET_HOSTS = f"*.{STORAGE_HOST}"
"""How a certificate names the hosts of buckets: one label, as Google's does."""


def bucket_of_host(host: str) -> str | None:
    """The bucket of `BUCKET.storage.googleapis.com`, with or without https's port; else None."""
    name = host.strip().lower().removesuffix(f":{HTTPS_PORT}")
    bucket = name.removesuffix(f".{STORAGE_HOST}")
    return bucket if bucket and bucket != name else None
