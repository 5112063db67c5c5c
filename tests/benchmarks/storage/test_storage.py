"""The figures of the storage service: `pytest -m benchmark -s tests/benchmarks`."""

import os
import statistics
import time
from contextlib import ExitStack

import grpc
import pytest
from google.auth.credentials import AnonymousCredentials
from google.cloud import storage, tpu_v2

from benchmarks.measure import ROUNDS, keep, peak_resident
from benchmarks.peers import storage_servers
from benchmarks.peers.raw_storage import (
    BLOCK_BYTES,
    download_head,
    download_large,
    many,
    upload_head,
    upload_large,
    uploading,
)

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(900)]

LARGE_BLOCKS = 256
SMALL_BYTES = 64 * 1024
SMALL_COUNT = 1000
CONNECTIONS = 16
CALLS = 1000


@pytest.fixture
def block():
    return os.urandom(BLOCK_BYTES)


@pytest.fixture
def small():
    return os.urandom(SMALL_BYTES)


def compare(servers, measure, rounds=ROUNDS):
    """Seconds of each server, in turns; once to warm up."""
    times = {name: [] for name in servers}
    for number in range(rounds + 1):
        for name, url in servers.items():
            took_s = measure(url, number)
            if number:
                times[name].append(took_s)
    return times


def serving(stack, directory, *names):
    """The servers of these names, each with a directory of its own."""
    return {
        name: stack.enter_context(getattr(storage_servers, name)(directory / name))
        for name in names
    }


def speed_ratio(times, peer):
    """How fast we are in units of the peer."""
    return round(statistics.median(times[peer]) / statistics.median(times["ours"]), 2)


@pytest.mark.parametrize(("peer", "target"), [("bare", 0.9), ("fake_gcs_server", 3)])
def test_a_large_durable_upload(peer, target, block, tmp_path):
    with ExitStack() as stack:
        servers = serving(stack, tmp_path, "ours", peer)
        times = compare(servers, lambda url, _: upload_large(url, "large", block, LARGE_BLOCKS))
    keep(
        f"256 MiB durable upload beside {peer}",
        f"at least {target} x its speed",
        ours_s=times["ours"],
        peer_s=times[peer],
        ratio=speed_ratio(times, peer),
    )


def test_a_large_upload_by_googles_client(block, tmp_path):
    data = block * LARGE_BLOCKS

    def upload(url, number):
        client = storage.Client(
            project="p",
            credentials=AnonymousCredentials(),
            client_options={"api_endpoint": url},
        )
        began = time.perf_counter()
        client.bucket(storage_servers.BUCKET).blob("large").upload_from_string(data)
        return time.perf_counter() - began

    with ExitStack() as stack:
        times = compare(serving(stack, tmp_path, "ours", "fake_gcs_server"), upload)
    keep(
        "256 MiB uploaded by google-cloud-storage beside fake_gcs_server",
        "reported",
        ours_s=times["ours"],
        peer_s=times["fake_gcs_server"],
        ratio=speed_ratio(times, "fake_gcs_server"),
    )


def test_many_small_durable_uploads(small, tmp_path):
    def upload(url, number):
        names = (f"small-{number}-{each}" for each in range(SMALL_COUNT))
        requests = ((upload_head(url, name, len(small)), small) for name in names)
        return many(url, requests, CONNECTIONS)

    with ExitStack() as stack:
        times = compare(serving(stack, tmp_path, "ours", "bare"), upload)
    keep(
        f"{SMALL_COUNT} x 64 KiB durable uploads, {CONNECTIONS} connections",
        "at least 0.8 x a bare server",
        ours_s=times["ours"],
        peer_s=times["bare"],
        ratio=speed_ratio(times, "bare"),
    )


def test_a_large_download(block, tmp_path):
    with ExitStack() as stack:
        servers = serving(stack, tmp_path, "ours", "bare")
        for url in servers.values():
            upload_large(url, "large", block, LARGE_BLOCKS)
        times = compare(servers, lambda url, _: download_large(url, "large")[0])
    keep(
        "256 MiB download",
        "at least 0.8 x a bare server",
        ours_s=times["ours"],
        peer_s=times["bare"],
        ratio=speed_ratio(times, "bare"),
    )


def test_many_small_downloads(small, tmp_path):
    names = [f"small-{each}" for each in range(SMALL_COUNT)]

    def download(url, _):
        return many(url, ((download_head(url, name), b"") for name in names), CONNECTIONS)

    with ExitStack() as stack:
        servers = serving(stack, tmp_path, "ours", "bare")
        for url in servers.values():
            many(url, ((upload_head(url, name, len(small)), small) for name in names), CONNECTIONS)
        times = compare(servers, download)
    keep(
        f"{SMALL_COUNT} x 64 KiB downloads, {CONNECTIONS} connections",
        "at least 0.8 x a bare server",
        ours_s=times["ours"],
        peer_s=times["bare"],
        ratio=speed_ratio(times, "bare"),
    )


def test_an_object_of_5_gib_costs_little_memory(block, tmp_path):
    with storage_servers.localsim(tmp_path / "ours") as (process, line):
        upload_large(line["storage"], "huge", block, 5 * 1024)
        _, size_bytes = download_large(line["storage"], "huge")
        assert size_bytes == 5 * 1024**3
        peak_mib = peak_resident(process.pid)
    keep("localsim's peak, 5 GiB up and down", "under 100 MiB", ours_mib=[peak_mib])


def test_calls_of_the_tpu_api_while_a_large_upload_runs(tmp_path):
    quiet_s, busy_s, limit_s = [], [], []
    with (
        storage_servers.localsim(tmp_path / "ours") as (_, line),
        storage_servers.bare(tmp_path / "bare") as elsewhere,
        grpc.insecure_channel(line["tpu_grpc"]) as channel,
    ):
        call = channel.unary_unary("/google.cloud.tpu.v2.Tpu/ListNodes")
        p99_s(call)
        for _ in range(ROUNDS):
            quiet_s.append(p99_s(call))
            with uploading(line["storage"], LARGE_BLOCKS):
                busy_s.append(p99_s(call))
            with uploading(elsewhere, LARGE_BLOCKS):
                limit_s.append(p99_s(call))
    quiet = statistics.median(quiet_s)
    keep(
        "ListNodes p99 over gRPC while 256 MiB uploads run",
        "at most 3 x its idle p99; beside uploads to a server of their own",
        ours_s=busy_s,
        idle_s=quiet_s,
        uploads_elsewhere_s=limit_s,
        ratio=round(statistics.median(busy_s) / quiet, 2),
        ratio_elsewhere=round(statistics.median(limit_s) / quiet, 2),
    )


def p99_s(call):
    """The 99th of a hundred, of a thousand calls one after the other."""
    parent = "projects/local-project/locations/us-west4-a"
    body = tpu_v2.ListNodesRequest.pb()(parent=parent).SerializeToString()
    times = []
    for _ in range(CALLS):
        began = time.perf_counter()
        call(body)
        times.append(time.perf_counter() - began)
    return statistics.quantiles(times, n=100)[98]
