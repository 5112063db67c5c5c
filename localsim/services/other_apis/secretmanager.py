"""The part of Secret Manager that stores, lists and reads secrets."""

import base64
import binascii
import re
from typing import Any

import google_crc32c

from localsim.rules.model.cloud_errors import CloudError, Code
from localsim.rules.project.secret_store import SecretVersion, StoredSecret
from localsim.services.other_apis.other_api_calls import SECRET_MANAGER, ApiCall, ApiMethod
from localsim.services.storage.resources.object_resources import timestamp

MOST_BYTES = 64 * 1024
LATEST = "latest"
_NAME = re.compile(r"[A-Za-z0-9_-]{1,255}")
_SECRETS = "/v1/projects/{project}/secrets"
_SECRET = f"{_SECRETS}/{{secret}}"
_VERSION = f"{_SECRET}/versions/{{version_id}}"


def _create(call: ApiCall) -> dict[str, Any]:
    name = call.query.get("secretId", "")
    if not _NAME.fullmatch(name):
        raise CloudError(Code.INVALID_ARGUMENT, f"Invalid secret ID: {name!r}.")
    if not call.body.get("replication"):
        raise CloudError(Code.INVALID_ARGUMENT, "replication is required.")
    secret = StoredSecret(name, call.project.now(), call.body)
    if not call.project.secrets.create(secret):
        raise CloudError(Code.ALREADY_EXISTS, f"Secret [{_named(call, name)}] already exists.")
    return _shown(call, secret)


def _list(call: ApiCall) -> dict[str, Any]:
    secrets = [_shown(call, each) for each in call.project.secrets.all()]
    return {"secrets": secrets, "totalSize": len(secrets)} if secrets else {}


def _delete(call: ApiCall) -> dict[str, Any]:
    call.project.secrets.delete(_found(call).name)
    return {}


def _add_version(call: ApiCall) -> dict[str, Any]:
    secret, data = _found(call), _payload(call)
    version = call.project.secrets.add(secret.name, call.project.now(), data)
    return _version_shown(call, secret, version)


def _list_versions(call: ApiCall) -> dict[str, Any]:
    secret = _found(call)
    versions = call.project.secrets.versions(secret.name)
    shown = [_version_shown(call, secret, version) for version in versions]
    return {"versions": shown, "totalSize": len(shown)} if shown else {}


def _get_version(call: ApiCall) -> dict[str, Any]:
    return _version_shown(call, _found(call), _found_version(call))


def _access(call: ApiCall) -> dict[str, Any]:
    version = _found_version(call)
    payload = {
        "data": base64.b64encode(version.data).decode("ascii"),
        "dataCrc32c": str(google_crc32c.value(version.data)),
    }
    return {"name": _version_name(call, call.names["secret"], version), "payload": payload}


def _payload(call: ApiCall) -> bytes:
    given = call.body.get("payload")
    given = given if isinstance(given, dict) else {}
    try:
        text = str(given.get("data", "")).translate(str.maketrans("-_", "+/"))
        data = base64.b64decode(text, validate=True)
    except binascii.Error:
        raise CloudError(Code.INVALID_ARGUMENT, "payload.data is not base64.") from None
    if not 0 < len(data) <= MOST_BYTES:
        raise CloudError(Code.INVALID_ARGUMENT, "The payload must have 1 to 65536 bytes.")
    expected = given.get("dataCrc32c")
    if expected is not None and str(expected) != str(google_crc32c.value(data)):
        raise CloudError(Code.INVALID_ARGUMENT, "payload.data_crc32c does not match payload.data.")
    return data


def _found(call: ApiCall) -> StoredSecret:
    name = call.names["secret"]
    secret = call.project.secrets.get(name)
    if secret is None:
        raise CloudError(Code.NOT_FOUND, f"Secret [{_named(call, name)}] not found.")
    return secret


def _found_version(call: ApiCall) -> SecretVersion:
    secret, wanted = _found(call), call.names["version_id"]
    for version in call.project.secrets.versions(secret.name):
        if wanted in (LATEST, str(version.number)):
            return version
    name = f"{_named(call, secret.name)}/versions/{wanted}"
    raise CloudError(Code.NOT_FOUND, f"Secret Version [{name}] not found.")


def _shown(call: ApiCall, secret: StoredSecret) -> dict[str, Any]:
    kept = {
        key: secret.settings[key] for key in ("replication", "labels") if secret.settings.get(key)
    }
    return {"name": _named(call, secret.name), "createTime": timestamp(secret.created_s), **kept}


def _version_shown(call: ApiCall, secret: StoredSecret, version: SecretVersion) -> dict[str, Any]:
    return {
        "name": _version_name(call, secret.name, version),
        "createTime": timestamp(version.created_s),
        "state": "ENABLED",
        "replicationStatus": {"automatic": {}},
    }


def _named(call: ApiCall, name: str) -> str:
    """The full name of a secret, with the project's number."""
    return f"projects/{call.project.number}/secrets/{name}"


def _version_name(call: ApiCall, secret: str, version: SecretVersion) -> str:
    return f"{_named(call, secret)}/versions/{version.number}"


ROWS = tuple(
    ApiMethod(SECRET_MANAGER, name, http, f"secretmanager.{permission}", answer)
    for name, http, permission, answer in (
        ("secrets.create", f"POST {_SECRETS}", "secrets.create", _create),
        ("secrets.list", f"GET {_SECRETS}", "secrets.list", _list),
        ("secrets.get", f"GET {_SECRET}", "secrets.get", lambda call: _shown(call, _found(call))),
        ("secrets.delete", f"DELETE {_SECRET}", "secrets.delete", _delete),
        ("secrets.addVersion", f"POST {_SECRET}:addVersion", "versions.add", _add_version),
        ("versions.list", f"GET {_SECRET}/versions", "versions.list", _list_versions),
        ("versions.get", f"GET {_VERSION}", "versions.get", _get_version),
        ("versions.access", f"GET {_VERSION}:access", "versions.access", _access),
    )
)
