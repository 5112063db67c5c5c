"""The project of the cloud, and the e-mail addresses of service accounts."""

import hashlib
import re

PROJECT = "local-project"
PROJECT_NUMBER = 424242424242
_NUMBERS_FROM, _NUMBERS = 10**11, 9 * 10**11


def project_number(project: str) -> int:
    """The number of a project; any name but that of the cloud's own has one made of the name."""
    if project == PROJECT:
        return PROJECT_NUMBER
    if re.fullmatch("[0-9]{1,18}", project):
        return int(project)
    digest = hashlib.sha256(project.encode(errors="replace")).digest()
    return _NUMBERS_FROM + int.from_bytes(digest[:8]) % _NUMBERS


def email(account: str, project: str) -> str:
    """The address of a service account that somebody made in the project."""
    return f"{account}@{project}.iam.gserviceaccount.com"


def default_compute_email(project_number: int) -> str:
    """The address of Compute Engine's default account, which workers have by themselves."""
    return f"{project_number}-compute@developer.gserviceaccount.com"
