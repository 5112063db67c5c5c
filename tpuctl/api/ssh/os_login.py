"""OS Login: puts our key into the caller's profile, which has a user name of its own.

The node's metadata `enable-oslogin` says so; its `ssh-keys` count for nothing then. The project's
metadata is not read. https://cloud.google.com/compute/docs/oslogin/rest/v1/users/importSshPublicKey
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

from tpuctl.api.credentials import tokens
from tpuctl.api.ssh.keys import Access
from tpuctl.api.storage import authorized_session
from tpuctl.api.tpu.rest import Reply, RestApi
from tpuctl.config import APPLICATION_DEFAULT, GOOGLE_TPU, Context
from tpuctl.errors import PermissionDeniedError, PreconditionError, TransientError

ENABLE = "enable-oslogin"
OS_LOGIN = "https://oslogin.googleapis.com"
USER_INFO = "https://openidconnect.googleapis.com"
LOGIN_HINT = "ask for roles/compute.osLogin, or roles/compute.osAdminLogin"
_FORBIDDEN = (401, 403)


def is_on(metadata: Mapping[str, str]) -> bool:
    """Whether a node with that metadata decides by OS Login who may log in."""
    return metadata.get(ENABLE, "").strip().upper() in ("TRUE", "Y", "YES", "1")


def with_os_login(access: Access) -> Access:
    """The access with the user name of OS Login, after our key was put into its profile.

    Raises PreconditionError, PermissionDeniedError, TransientError.
    """
    context = access.context
    if context is None or context.tpu_endpoint != GOOGLE_TPU:
        name = context.name if context else "?"
        raise PreconditionError(
            f"the node accepts OS Login only (metadata {ENABLE}), which needs Google's "
            f"endpoints and credentials, and context {name!r} has others",
            hint=f"run: tpuctl node update NAME --metadata {ENABLE}=FALSE",
        )
    session = authorized_session(tokens(context))
    try:
        email = _email(context, RestApi(USER_INFO, session))
        user = import_key(RestApi(OS_LOGIN, session), email, access.public_key, context.project)
    finally:
        session.close()
    return replace(access, user=user)


def import_key(api: Any, email: str, public_key: str, project: str) -> str:
    """Put the key into an account's profile; returns the user name of that profile."""
    path = f"/v1/users/{quote(email, safe='@')}:importSshPublicKey?projectId={quote(project)}"
    reply = _send_request(lambda: api.request("POST", path, {"key": public_key}))
    accounts = reply.document.get("loginProfile", {}).get("posixAccounts", [])
    linux = [each for each in accounts if each.get("operatingSystemType", "LINUX") == "LINUX"]
    linux.sort(key=lambda each: not each.get("primary", False))
    if not linux:
        raise PreconditionError(f"OS Login has no user name for {email}", hint=LOGIN_HINT)
    return str(linux[0]["username"])


def _email(context: Context, api: RestApi) -> str:
    if context.credentials != APPLICATION_DEFAULT:
        return str(json.loads(Path(context.credentials).read_text("utf-8"))["client_email"])
    reply = _send_request(lambda: api.request("GET", "/v1/userinfo"))
    if not reply.document.get("email"):
        raise PreconditionError(
            "the credentials do not say whose they are, which OS Login needs",
            hint="run: gcloud auth application-default login",
        )
    return str(reply.document["email"])


def _send_request(request: Callable[[], Reply]) -> Reply:
    try:
        reply = request()
    except OSError as error:
        raise TransientError(f"OS Login: {error}", hint="run it again") from error
    if reply.status == 200:
        return reply
    said = reply.document.get("error", {})
    text = said.get("message", "") if isinstance(said, dict) else str(said)
    kind = PermissionDeniedError if reply.status in _FORBIDDEN else TransientError
    raise kind(f"OS Login: {text or f'HTTP {reply.status}'}", hint=LOGIN_HINT)
