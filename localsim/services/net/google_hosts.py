"""Google's names that lead to the simulator inside the VPC, and which server each one means."""

OTHER_APIS = "neighbours"
SERVICE_OF = {
    "storage.googleapis.com": "storage",
    "www.googleapis.com": "storage",
    "tpu.googleapis.com": "tpu_rest",
    **dict.fromkeys(
        (
            "cloudresourcemanager.googleapis.com",
            "compute.googleapis.com",
            "iamcredentials.googleapis.com",
            "logging.googleapis.com",
            "monitoring.googleapis.com",
            "oauth2.googleapis.com",
            "secretmanager.googleapis.com",
            "serviceusage.googleapis.com",
        ),
        OTHER_APIS,
    ),
}
"""Host name -> the name of the server; what that one lacks it refuses by name."""
HTTPS_PORT = 443
