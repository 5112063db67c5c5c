"""The buckets that a job names, made in a cloud that has none of them, and filled."""

import re
from collections.abc import Iterator, Mapping

from tpuctl.models.job import JobSpec
from tpuctl.models.transfer import TransferFinished, TransferScope
from tpuctl.operations.rehearse.run_clients import RunClients
from tpuctl.operations.stage.plan.names import split_url
from tpuctl.operations.stage.plan.push_plan import plan_push
from tpuctl.operations.stage.transfer import push_files

GS_URL = re.compile(r"gs://([a-z0-9][-a-z0-9_.]{1,61}[a-z0-9])(?![-a-z0-9_.])")


def bucket_names(spec: JobSpec, data: Mapping[str, str]) -> list[str]:
    """Every bucket that a job and the data of its rehearsal name."""
    found = (name for text in _texts(spec, data) for name in GS_URL.findall(text))
    return sorted(set(found))


def prepare_buckets(clients: RunClients, spec: JobSpec, data: Mapping[str, str]) -> None:
    """Make the buckets, and push the data. Raises NotFoundError, LocalIOError, IntegrityError."""
    for name in bucket_names(spec, data):
        if name != clients.context.bucket:
            project = {"project": clients.context.project}
            clients.session.send("POST", "/storage/v1/b", params=project, json={"name": name})
    for url, path in data.items():
        _push(clients, path, url)


def _texts(spec: JobSpec, data: Mapping[str, str]) -> Iterator[str]:
    yield from (spec.run, spec.setup or "", spec.cache or "")
    yield from spec.envs.values()
    yield from spec.file_mounts.values()
    yield from data
    if spec.checkpoints:
        yield spec.checkpoints.dir
    if spec.predict:
        yield from (spec.predict.input, spec.predict.output, spec.predict.checkpoint or "")


def _push(clients: RunClients, path: str, url: str) -> None:
    bucket, prefix = split_url(url)
    bulk = clients.bulk(bucket)
    plan = plan_push(path, bulk, prefix, clients.checksums, TransferScope())
    for event in push_files.push(plan, bulk):
        if isinstance(event, TransferFinished) and event.error:
            raise event.error
