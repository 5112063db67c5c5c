"""The part of IAM about the keys of service accounts: made, uploaded, shown and deleted.

https://cloud.google.com/iam/docs/reference/rest/v1/projects.serviceAccounts.keys
"""

import asyncio
import base64
import binascii
import json
from typing import Any

from localsim.rules.model.cloud_errors import CloudError, Code
from localsim.rules.project.service_account_keys import ServiceAccountKey
from localsim.services.auth import oauth2
from localsim.services.auth.signing_keys import (
    key_id_of,
    load_public_key,
    new_private_key,
    private_pem,
    public_pem,
)
from localsim.services.other_apis.other_api_calls import IAM, ApiCall, api_methods
from localsim.services.other_apis.project_setup.service_accounts import (
    ACCOUNT_PATH,
    found_account,
    unique_id,
)
from localsim.services.storage.resources.object_resources import timestamp

_MOST_KEYS = 10
"""So many keys one account may have: cloud.google.com/iam/quotas."""
_ENDS = "9999-12-31T23:59:59Z"
_PROVIDED, _UPLOADED = "GOOGLE_PROVIDED", "USER_PROVIDED"
_KEYS = f"{ACCOUNT_PATH}/keys"
_KEY = f"{_KEYS}/{{key}}"
_PERMISSION = "iam.serviceAccountKeys"


async def _create(call: ApiCall) -> dict[str, Any]:
    """Make a key; this reply alone has its private half."""
    email = found_account(call)
    kind = call.body.get("privateKeyType") or "TYPE_GOOGLE_CREDENTIALS_FILE"
    if kind not in ("TYPE_GOOGLE_CREDENTIALS_FILE", "TYPE_UNSPECIFIED"):
        raise CloudError(Code.INVALID_ARGUMENT, f"Private key type {kind} is not supported here.")
    _check_number(call, email)
    private = await asyncio.to_thread(new_private_key)
    key = _kept(call, email, public_pem(private.public_key()), _PROVIDED)
    document = json.dumps(_key_file(call, key, private_pem(private).decode("ascii")), indent=2)
    data = base64.b64encode(document.encode()).decode("ascii")
    return {
        **_shown(call, key),
        "privateKeyType": "TYPE_GOOGLE_CREDENTIALS_FILE",
        "privateKeyData": data,
    }


def _upload(call: ApiCall) -> dict[str, Any]:
    """Take a public key whose private half the user has made."""
    email = found_account(call)
    _check_number(call, email)
    try:
        data = base64.b64decode(str(call.body.get("publicKeyData", "")), validate=True)
        pem = public_pem(load_public_key(data))
    except (binascii.Error, ValueError):
        sentence = "The public key data must be base64 of a PEM with an RSA key."
        raise CloudError(Code.INVALID_ARGUMENT, sentence) from None
    return _shown(call, _kept(call, email, pem, _UPLOADED))


def _list(call: ApiCall) -> dict[str, Any]:
    keys = call.project.signing_keys.store.keys_of(found_account(call))
    return {"keys": [_shown(call, key) for key in keys]} if keys else {}


def _get(call: ApiCall) -> dict[str, Any]:
    email, wanted = found_account(call), call.names["key"]
    for key in call.project.signing_keys.store.keys_of(email):
        if key.id == wanted:
            return _shown(call, key)
    raise _not_found(wanted)


def _delete(call: ApiCall) -> dict[str, Any]:
    if not call.project.signing_keys.store.delete(found_account(call), call.names["key"]):
        raise _not_found(call.names["key"])
    return {}


def _kept(call: ApiCall, email: str, pem: str, origin: str) -> ServiceAccountKey:
    key_id = key_id_of(load_public_key(pem.encode("ascii")))
    key = ServiceAccountKey(key_id, email, pem, call.project.now(), origin)
    if not call.project.signing_keys.store.add(key):
        raise CloudError(Code.ALREADY_EXISTS, f"Service account key {key_id} already exists.")
    return key


def _check_number(call: ApiCall, email: str) -> None:
    if len(call.project.signing_keys.store.keys_of(email)) >= _MOST_KEYS:
        raise CloudError(Code.FAILED_PRECONDITION, "Precondition check failed.")


def _key_file(call: ApiCall, key: ServiceAccountKey, pem: str) -> dict[str, str]:
    """What Google's libraries read; tokens come from where the caller has asked for the key."""
    return {
        "type": "service_account",
        "project_id": call.project.id,
        "private_key_id": key.id,
        "private_key": pem,
        "client_email": key.email,
        "client_id": unique_id(key.email),
        "auth_uri": f"{call.origin}/auth",
        "token_uri": f"{call.origin}{oauth2.PATH}",
        "universe_domain": "googleapis.com",
    }


def _shown(call: ApiCall, key: ServiceAccountKey) -> dict[str, Any]:
    return {
        "name": f"projects/{call.project.id}/serviceAccounts/{key.email}/keys/{key.id}",
        "validAfterTime": timestamp(key.created_s),
        "validBeforeTime": _ENDS,
        "keyAlgorithm": "KEY_ALG_RSA_2048",
        "keyOrigin": key.origin,
        "keyType": "USER_MANAGED",
    }


def _not_found(key_id: str) -> CloudError:
    return CloudError(Code.NOT_FOUND, f"Service account key {key_id[:100]} does not exist.")


ROWS = api_methods(
    IAM,
    ("serviceAccounts.keys.create", f"POST {_KEYS}", f"{_PERMISSION}.create", _create),
    ("serviceAccounts.keys.upload", f"POST {_KEYS}:upload", f"{_PERMISSION}.create", _upload),
    ("serviceAccounts.keys.list", f"GET {_KEYS}", f"{_PERMISSION}.list", _list),
    ("serviceAccounts.keys.get", f"GET {_KEY}", f"{_PERMISSION}.get", _get),
    ("serviceAccounts.keys.delete", f"DELETE {_KEY}", f"{_PERMISSION}.delete", _delete),
)
