"""Cloud Storage: what the caller may do with a bucket, and who has which role on it.

https://cloud.google.com/storage/docs/json_api/v1/buckets/testIamPermissions
"""

from collections.abc import Mapping, Sequence
from urllib.parse import quote, urlencode

from tpuctl.api.answers import ask, parse_answer
from tpuctl.api.project.resource_manager import permissions_in, roles_in
from tpuctl.api.tpu.rest import RestApi
from tpuctl.store.gcs.object_info import BucketFacts, bucket_facts


def facts_of_bucket(rest: RestApi, bucket: str) -> BucketFacts:
    """Where the bucket is, and its default class; raises what `ask` raises."""
    found = ask(rest, "GET", _path(bucket), f"gs://{bucket}")
    with parse_answer(f"gs://{bucket}"):
        return bucket_facts(dict(found))


def granted_on_bucket(rest: RestApi, bucket: str, wanted: Sequence[str]) -> frozenset[str]:
    """Those of the permissions that the caller has on the bucket; raises what `ask` raises."""
    query = urlencode([("permissions", each) for each in wanted])
    path = f"{_path(bucket)}/iam/testPermissions?{query}"
    return permissions_in(ask(rest, "GET", path, f"the permissions on gs://{bucket}"))


def bucket_roles_by_member(rest: RestApi, bucket: str) -> Mapping[str, frozenset[str]]:
    """The roles of each member of the bucket's policy; raises what `ask` raises."""
    path = f"{_path(bucket)}/iam?optionsRequestedPolicyVersion=3"
    return roles_in(ask(rest, "GET", path, f"the policy of gs://{bucket}"))


def _path(bucket: str) -> str:
    return f"/storage/v1/b/{quote(bucket, safe='')}"
