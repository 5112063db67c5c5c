"""Partial responses of the JSON API: `fields=nextPageToken,items(name,metadata/x)`.

Unlike in newer Google APIs a dot is a part of a name: keys of custom metadata have them.
"""

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from localsim.services.rest.rest_fields import Mask, parse_selection
from localsim.services.storage.wire.json_errors import ParameterError

Known = Mapping[str, Any]
"""Field -> what is known below it: None below a scalar, an empty map where anything may be."""

_TOKEN = re.compile(r"[^,/()\s]+|[,/()]")
_ANYTHING: Known = {}


def _known(scalars: str, **others: Known) -> Known:
    return {**dict.fromkeys(scalars.split()), **others}


_OBJECT = _known(
    "bucket cacheControl componentCount contentDisposition contentEncoding contentLanguage"
    " contentType crc32c customTime etag eventBasedHold generation hardDeleteTime id kind"
    " kmsKeyName md5Hash mediaLink metageneration name restoreToken retentionExpirationTime"
    " selfLink size softDeleteTime storageClass temporaryHold timeCreated timeDeleted"
    " timeFinalized timeStorageClassUpdated updated",
    acl=_ANYTHING,
    contexts=_ANYTHING,
    customerEncryption=_ANYTHING,
    metadata=_ANYTHING,
    owner=_ANYTHING,
    retention=_ANYTHING,
)
_OF_BUCKETS = (
    "acl autoclass billing cors customPlacementConfig defaultObjectAcl encryption"
    " hierarchicalNamespace iamConfiguration ipFilter labels lifecycle logging objectRetention"
    " owner retentionPolicy softDeletePolicy versioning website"
)
_BUCKET = _known(
    "defaultEventBasedHold etag generation hardDeleteTime id kind location locationType"
    " metageneration name projectNumber rpo satisfiesPZI satisfiesPZS selfLink softDeleteTime"
    " storageClass timeCreated updated",
    **dict.fromkeys(_OF_BUCKETS.split(), _ANYTHING),
)
_HMAC_KEY = _known(
    "accessId etag id kind projectId selfLink serviceAccountEmail state timeCreated updated"
)
_NOTIFICATION = _known(
    "etag id kind object_name_prefix payload_format selfLink topic",
    custom_attributes=_ANYTHING,
    event_types=_ANYTHING,
)
_ENTRY = _known(
    "bucket domain email entity entityId etag generation id kind object role selfLink",
    projectTeam=_ANYTHING,
)
_LISTS = ("storage.bucket_acl", "storage.default_object_acl", "storage.object_acl")
_KINDS: Mapping[str, Known] = {
    **dict.fromkeys(_LISTS, _ENTRY),
    "storage.buckets": _BUCKET,
    "storage.notifications": _NOTIFICATION,
    "storage.objects": _OBJECT,
    "storage.projects.hmacKeys": _HMAC_KEY,
}
_POLICY = _known("etag kind resourceId version", bindings=_ANYTHING)
_REPLIES: Mapping[str, Known] = {
    "storage.buckets.list": _known("kind nextPageToken", items=_BUCKET, unreachable=_ANYTHING),
    "storage.buckets.getIamPolicy": _POLICY,
    "storage.buckets.setIamPolicy": _POLICY,
    "storage.buckets.testIamPermissions": _known("kind permissions"),
    "storage.buckets.getStorageLayout": _known(
        "bucket kind location locationType",
        customPlacementConfig=_ANYTHING,
        hierarchicalNamespace=_ANYTHING,
    ),
    "storage.projects.hmacKeys.create": _known("kind secret", metadata=_HMAC_KEY),
    "storage.projects.hmacKeys.list": _known("kind nextPageToken", items=_HMAC_KEY),
    "storage.projects.serviceAccount.get": _known("email_address kind"),
    "storage.managedFolders.list": _known("kind nextPageToken", items=_ANYTHING),
    **{f"{name}.list": _known("kind", items=_ENTRY) for name in _LISTS},
    "storage.objects.getIamPolicy": _POLICY,
    "storage.objects.setIamPolicy": _POLICY,
    "storage.objects.testIamPermissions": _known("kind permissions"),
    "storage.notifications.list": _known("kind", items=_NOTIFICATION),
    "storage.objects.list": _known("kind nextPageToken prefixes", items=_OBJECT),
    "storage.objects.rewrite": _known(
        "done kind objectSize rewriteToken totalBytesRewritten", resource=_OBJECT
    ),
}


@lru_cache(256)  # programs ask for the same fields again and again
def reply_fields(text: str, method: str) -> Mask:
    """What a `fields` parameter selects of a method's reply; raises ParameterError."""
    tokens = _TOKEN.findall(text)
    if not tokens:
        return {}
    mask = parse_selection(tokens)
    if tokens or not mask:
        raise _refused(text)
    _check(mask, _REPLIES.get(method) or _KINDS.get(method.rpartition(".")[0], _ANYTHING))
    return mask


def _check(mask: Mask, known: Known) -> None:
    for name, below in mask.items():
        if name == "*" or known is _ANYTHING:
            continue
        if name not in known:
            raise _refused(name)
        if below:
            if known[name] is None:
                raise _refused(next(iter(below)))
            _check(below, known[name])


def _refused(what: str) -> ParameterError:
    return ParameterError("fields", f"Invalid field selection {what}")
