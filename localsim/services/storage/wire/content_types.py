"""The content types that a JSON body must not have: a web page may send those anywhere."""

from aiohttp import web

from localsim.cloud.objects.storage_model import StorageError

_FORMS = ("application/x-www-form-urlencoded", "multipart/form-data")


def check_json_type(request: web.Request) -> None:
    """Raise 400 for a form or plain text where JSON belongs, as Google does."""
    if "Content-Type" not in request.headers:
        return
    if request.content_type in _FORMS:
        message = "This API does not support parsing form-encoded input."
        raise StorageError(400, "parseError", message)
    if request.content_type == "text/plain":
        raise StorageError(400, "badContent", "Unsupported content with type: text/plain")
