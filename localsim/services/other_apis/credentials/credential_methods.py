"""Tokens and signatures of service accounts for callers that do not have their keys.

https://cloud.google.com/iam/docs/reference/credentials/rest. The permission is asked for in the
project; Google asks for it on the account as well.
"""

import asyncio
import json
from typing import TYPE_CHECKING, Any

from localsim.rules.model.cloud_errors import CloudError, Code
from localsim.services.auth.jwt import encode_base64url
from localsim.services.other_apis.message_calls import MessageMethod
from localsim.services.other_apis.other_api_calls import IAM_CREDENTIALS, ProjectContext
from localsim.services.other_apis.project_setup.service_accounts import account_states, unique_id

if TYPE_CHECKING:
    from types import ModuleType

MOST_LIFE_S = 3600
MOST_BYTES = 64 * 1024
_PREFIX = "projects/-/serviceAccounts/"
_NAME = "projects/{project}/serviceAccounts/{account}"
_SERVICE = "google.iam.credentials.v1.IAMCredentials"


async def _generate_access_token(project: ProjectContext, request: Any) -> Any:
    """A token that is as good as the simulator runs, whatever its reply says."""
    email = _account(project, request.name)
    life_s = request.lifetime.seconds if request.HasField("lifetime") else MOST_LIFE_S
    if not 0 < life_s <= MOST_LIFE_S:
        sentence = f"The lifetime of a token is from 1 to {MOST_LIFE_S} seconds."
        raise CloudError(Code.INVALID_ARGUMENT, sentence)
    if not request.scope:
        raise CloudError(Code.INVALID_ARGUMENT, "scope is required.")
    token = project.issue_token(email, list(request.scope))
    reply = _messages().GenerateAccessTokenResponse.pb()(access_token=token)
    reply.expire_time.FromSeconds(int(project.now()) + life_s)
    return reply


async def _sign_blob(project: ProjectContext, request: Any) -> Any:
    email = _account(project, request.name)
    if not request.payload or len(request.payload) > MOST_BYTES:
        raise CloudError(Code.INVALID_ARGUMENT, f"payload must have 1 to {MOST_BYTES} bytes.")
    sign = project.signing_keys.sign
    key_id, signature = await asyncio.to_thread(sign, email, request.payload)
    return _messages().SignBlobResponse.pb()(key_id=key_id, signed_blob=signature)


async def _sign_jwt(project: ProjectContext, request: Any) -> Any:
    email = _account(project, request.name)
    try:
        claims = json.loads(request.payload[:MOST_BYTES])
    except (ValueError, RecursionError):
        claims = None
    if not isinstance(claims, dict):
        raise CloudError(Code.INVALID_ARGUMENT, "payload must be a JSON object.")
    sign = project.signing_keys.sign
    key_id, _ = await asyncio.to_thread(sign, email, b"")
    header = {"alg": "RS256", "kid": key_id, "typ": "JWT"}
    parts = [encode_base64url(json.dumps(part).encode()) for part in (header, claims)]
    _, signature = await asyncio.to_thread(sign, email, ".".join(parts).encode("ascii"))
    token = ".".join([*parts, encode_base64url(signature)])
    return _messages().SignJwtResponse.pb()(key_id=key_id, signed_jwt=token)


def _account(project: ProjectContext, name: str) -> str:
    """The address of the account that a request names; raises CloudError."""
    if not name.startswith(_PREFIX):
        sentence = f"The name must begin with {_PREFIX}: the project is not given."
        raise CloudError(Code.INVALID_ARGUMENT, sentence)
    wanted = name.removeprefix(_PREFIX)
    for email, state in account_states(project).items():
        if wanted in (email, unique_id(email)):
            if state == "disabled":
                raise CloudError(Code.FAILED_PRECONDITION, "Service account is disabled.")
            return email
    raise CloudError(Code.NOT_FOUND, f"Not found; Gaia id not found for email {wanted[:100]}")


def _messages() -> "ModuleType":
    """The messages, which most simulators never need."""
    from localsim.services.other_apis.credentials import credential_messages

    return credential_messages


def _method(name: str, grpc: str, permission: str, request: str, answer: Any) -> MessageMethod:
    return MessageMethod(
        service=IAM_CREDENTIALS,
        name=f"serviceAccounts.{name}",
        http=f"POST /v1/{_NAME}:{name}",
        grpc=f"{_SERVICE}/{grpc}",
        permission=f"iam.serviceAccounts.{permission}",
        request=lambda: getattr(_messages(), request),
        answer=answer,
        resource=_NAME,
    )


METHODS = (
    _method(
        "generateAccessToken",
        "GenerateAccessToken",
        "getAccessToken",
        "GENERATE_ACCESS_TOKEN",
        _generate_access_token,
    ),
    _method("signBlob", "SignBlob", "signBlob", "SIGN_BLOB", _sign_blob),
    _method("signJwt", "SignJwt", "signJwt", "SIGN_JWT", _sign_jwt),
)
