"""The refusals of Cloud Storage in the XML API's words.

Codes and messages: cloud.google.com/storage/docs/xml-api/reference-status.
"""

from collections.abc import Mapping

from aiohttp import web

from localsim.rules.objects.bucket_settings.requester_pays import PayerError
from localsim.rules.objects.retention import HoldError
from localsim.rules.objects.storage_model import StorageError
from localsim.services.storage.signing.signature_errors import SignatureError
from localsim.services.storage.xml.documents import Tree, xml_response

_BY_STATUS: Mapping[int, tuple[str, str]] = {
    400: ("InvalidArgument", "Invalid argument."),
    401: ("AuthenticationRequired", "Authentication required."),
    403: ("AccessDenied", "Access denied."),
    404: ("NoSuchKey", "The specified key does not exist."),
    409: ("Conflict", "The request contradicts itself, or what is there."),
    412: (
        "PreconditionFailed",
        "At least one of the pre-conditions you specified did not hold.",
    ),
    413: ("EntityTooLarge", "Your proposed upload is larger than the maximum object size."),
    416: ("InvalidRange", "The requested range cannot be satisfied."),
    429: ("SlowDown", "Please reduce your request rate."),
    501: (
        "NotImplemented",
        "A header or query you provided implies functionality that is not implemented.",
    ),
    503: ("ServiceUnavailable", "Please reduce your request rate."),
}
_UNDER_HOLD = (
    "ObjectUnderActiveHold",
    "Object overwrite or deletion is not allowed due to active hold on the object.",
)
_RETAINED = (
    "RetentionPolicyNotMet",
    "Object overwrite or deletion is not allowed due to retention policy.",
)
_BY_REASON: Mapping[str, tuple[str, str]] = {
    "resourceIsEncryptedWithCustomerEncryptionKey": (
        "ResourceIsEncryptedWithCustomerEncryptionKey",
        "The resource is encrypted with a customer encryption key.",
    ),
    "resourceNotEncryptedWithCustomerEncryptionKey": (
        "ResourceNotEncryptedWithCustomerEncryptionKey",
        "The resource is not encrypted with a customer encryption key.",
    ),
    "customerEncryptionKeyIsIncorrect": (
        "CustomerEncryptionKeyIsIncorrect",
        "The provided encryption key is incorrect.",
    ),
}
_OTHERWISE = ("InternalError", "We encountered an internal error. Please try again.")


def error_response(error: StorageError) -> web.Response:
    """The whole reply; a 304 has no body, and what details there are stand beside the message."""
    if error.code == 304:  # noqa: PLR2004
        return web.Response(status=304, headers=error.headers)
    code, message = _BY_REASON.get(error.reason) or _BY_STATUS.get(error.code, _OTHERWISE)
    if isinstance(error, HoldError):
        code, message = _UNDER_HOLD
    if isinstance(error, PayerError):
        code, message = "UserProjectMissing", error.message
    if error.reason == "retentionPolicyNotMet":
        code, message = _RETAINED
    if error.reason[:1].isupper():  # as only those of this API are
        code, message = error.reason, error.message
    tree: Tree = (("Code", code), ("Message", message), ("Details", error.details))
    if isinstance(error, SignatureError):
        tree = (*tree[:2], ("Details", error.xml_details), *error.elements)
    response = xml_response("Error", tree, status=error.code)
    response.headers.update(error.headers)
    return response
