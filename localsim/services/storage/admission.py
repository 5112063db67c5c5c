"""Who a bucket lets in beside what roles permit: by address, and by who pays.

cloud.google.com/storage/docs/ip-filtering-overview and requester-pays.
"""

from collections.abc import Iterator, Mapping
from urllib.parse import unquote

from localsim.rules.objects.buckets.ip_filter import EXEMPT_METHODS, EXEMPTION, check_address
from localsim.rules.objects.buckets.requester_pays import PayerError, requester_pays
from localsim.rules.objects.storage_model import Bucket, StorageError
from localsim.services.auth.iam import ANONYMOUS, Account, granted_permissions
from localsim.services.storage.wire.json_requests import ACCOUNT, StorageCall

PAYS_ANYWAY = (
    "resourcemanager.projects.createBillingAssignment",
    "storage.buckets.setIamPolicy",
)
"""Who holds one of these is an owner of the bucket and need not say who pays."""
MAY_BILL = "serviceusage.services.use"


def check_admission(buckets: Mapping[str, Bucket], call: StorageCall) -> None:
    """Raise StorageError where one of the call's buckets does not let it in.

    `buckets` are those that do not let in every call.
    """
    account = call.request.get(ACCOUNT)
    for name in sorted({*_bucket_names(call)} & buckets.keys()):
        _check_sender(buckets[name], call, account)
        _check_payer(buckets[name], call, account)


def require_permission(call: StorageCall, permission: str) -> None:
    """Raise StorageError 403 where the caller lacks a permission that not every such call needs."""
    account = call.request.get(ACCOUNT)
    if account is None or granted_permissions(account, [permission]):
        return
    kind = "object" if permission.startswith("storage.objects.") else "bucket"
    raise StorageError(
        403,
        "forbidden",
        f"{account.email} does not have {permission} access to the Google Cloud Storage {kind}."
        f" Permission '{permission}' denied on resource (or it may not exist).",
    )


def _bucket_names(call: StorageCall) -> Iterator[str]:
    """The buckets that a call is about, that of a copy's source included."""
    yield from (call.names[each] for each in ("bucket", "to_bucket") if each in call.names)
    for header in ("x-goog-copy-source", "x-amz-copy-source"):
        yield unquote(call.request.headers.get(header, "")).lstrip("/").partition("/")[0]


def _check_sender(bucket: Bucket, call: StorageCall, account: Account | None) -> None:
    if call.method in EXEMPT_METHODS and granted_permissions(account, [EXEMPTION]):
        return
    check_address(bucket.properties, call.request.remote or "")


def _check_payer(bucket: Bucket, call: StorageCall, account: Account | None) -> None:
    if not requester_pays(bucket.properties) or granted_permissions(account, PAYS_ANYWAY):
        return
    if account is not None and account.email == ANONYMOUS:
        message = "Access to a Requester Pays bucket requires authentication."
        raise StorageError(401, "AuthenticationRequiredRequesterPays", message)
    payer = call.query.get("userProject") or call.request.headers.get("x-goog-user-project")
    if not payer:
        raise PayerError
    if account is not None and not granted_permissions(account, [MAY_BILL]):
        raise StorageError(
            403,
            "forbidden",
            f"{account.email} does not have {MAY_BILL} access to the Google Cloud project."
            f" Permission '{MAY_BILL}' denied on resource (or it may not exist).",
        )
