"""The e-mail addresses of service accounts."""


def email(account: str, project: str) -> str:
    """The address of a service account that somebody made in the project."""
    return f"{account}@{project}.iam.gserviceaccount.com"


def default_compute_email(project_number: int) -> str:
    """The address of Compute Engine's default account, which workers have by themselves."""
    return f"{project_number}-compute@developer.gserviceaccount.com"
