"""The number of each project, and the e-mail addresses of its service accounts."""

from zlib import crc32

OWN_PROJECT, OWN_PROJECT_NUMBER = "local-project", 424_242_424_242
_FIRST_NUMBER = 100_000_000_000
"""Google's numbers of projects have twelve digits."""


def project_number(project: str) -> int:
    """The number of a project: that of any other than the simulator's own is made of its name."""
    if project == OWN_PROJECT:
        return OWN_PROJECT_NUMBER
    return _FIRST_NUMBER + crc32(project.encode(errors="replace"))


def email(account: str, project: str) -> str:
    """The address of a service account that somebody made in the project."""
    return f"{account}@{project}.iam.gserviceaccount.com"


def default_compute_email(project_number: int) -> str:
    """The address of Compute Engine's default account, which workers have by themselves."""
    return f"{project_number}-compute@developer.gserviceaccount.com"
