"""Buckets whose requesters pay: cloud.google.com/storage/docs/requester-pays."""

from localsim.rules.objects.storage_model import Properties, StorageError


class PayerError(StorageError):
    """A refusal (400) because nobody is named who pays; the XML API has a code of its own for it.

    The words are those that clients know the refusal by.
    """

    def __init__(self) -> None:
        message = "Bucket is a requester pays bucket but no user project provided."
        super().__init__(400, "required", message)


def requester_pays(settings: Properties) -> bool:
    """Whether who sends a request for the bucket pays for it."""
    return (settings.get("billing") or {}).get("requesterPays") is True
