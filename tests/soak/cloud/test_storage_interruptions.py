"""An interruption at each 256 KiB of a 16 MiB upload and download, by tpuctl and Google's client.

The result is whole, no part of it ever has the final name, what was there before survives until
then, and what is sent twice is at most one chunk of 8 MiB. A few of the places in every run, all 64
in the soak.
"""

import gc
import os
import signal
import subprocess
import sys
import time

import clouds
import pytest
from google.auth.credentials import AnonymousCredentials
from google.cloud import storage
from google.cloud.storage.retry import DEFAULT_RETRY

from soak.cloud.traffic import metered
from tpuctl import network_policy

# Google's library leaves the reply to a download that failed to the garbage collector.
pytestmark = pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")

KIB, MIB = 1024, 1024 * 1024
SIZE_BYTES, CHUNK_BYTES = 16 * MIB, 8 * MIB
OVERHEAD_BYTES = 256 * KIB
"""Headers, metadata and calls besides the bodies."""
PLACES = range(0, SIZE_BYTES, 256 * KIB)
PLACE_OF_EVERY_RUN = CHUNK_BYTES + 256 * KIB
REFUSALS = ("503", "429")
PATIENCE_S = 1.5
"""How long clients wait here for a server that stalls."""
QUICK = DEFAULT_RETRY.with_delay(0.01, 0.1, 2.0).with_timeout(60)


def places(kinds, *, in_every_run):
    """Every kind at every place; all but one kind at one place only in the soak."""
    return [
        pytest.param(
            *(kind, place),
            id=f"{kind}-at-{place // KIB}K",
            marks=() if (kind, place) == (in_every_run, PLACE_OF_EVERY_RUN) else pytest.mark.soak,
        )
        for place in PLACES
        for kind in kinds
    ]


class Bench:
    """A cloud a thousand times as fast as life, 16 MiB in a file, and the commands."""

    def __init__(self, cloud, directory):
        self.control = cloud.control
        self.tpuctl = clouds.Runner(cloud.home)
        self.home = cloud.home
        self.url = cloud.line["storage"]
        self.port = int(self.url.rpartition(":")[2])
        self.source = directory / "source"
        self.data = os.urandom(SIZE_BYTES)
        self.source.write_bytes(self.data)
        self.client = storage.Client(
            project="p",
            credentials=AnonymousCredentials(),
            client_options={"api_endpoint": self.url},
        )
        self.bucket = self.client.bucket("local-bucket")

    def met(self):
        return [each["met"] for each in self.control.faults()]

    def blob(self, name):
        return self.bucket.blob(name, chunk_size=CHUNK_BYTES)


@pytest.fixture(scope="module")
def interrupted_cloud(tmp_path_factory):
    home = tmp_path_factory.mktemp("interrupted")
    for cloud in clouds.serve(home, "--time-scale", "1000"):
        found = Bench(cloud, home)
        found.bucket.blob("whole").upload_from_filename(found.source)
        yield found
        found.client.close()


@pytest.fixture
def bench(interrupted_cloud):
    yield interrupted_cloud
    interrupted_cloud.control.clear_faults()
    for blob in interrupted_cloud.bucket.list_blobs():
        if blob.name != "whole":
            blob.delete()
    gc.collect(1)


@pytest.fixture
def timeout(request, monkeypatch):
    """To connect (and send), and to wait; short where the server will stall."""
    is_short = request.node.callspec.params["kind"] == "stall"
    found = (PATIENCE_S, PATIENCE_S) if is_short else (10.0, 30.0)
    monkeypatch.setattr(network_policy.TransferPolicy, "timeout", found)
    return found


def interruption(kind, kib):
    """What happens to an upload after so many KiB."""
    return {
        "reset": f"return-broken-stream-after-{kib}K",
        # Longer than the soak: what arrived of a request that was given up is committed after it.
        "stall": f"stall-for-100000000s-after-{kib}K",
        "503": f"return-503-after-{kib}K",
        "429": f"return-429-after-{kib}K retry-after 1s",
    }[kind]


@pytest.mark.parametrize(
    ("kind", "place"), places(["reset", "stall", "503", "429"], in_every_run="stall")
)
@pytest.mark.usefixtures("timeout")
def test_a_push_that_is_interrupted(bench, kind, place):
    part, kib = place // CHUNK_BYTES, place % CHUNK_BYTES // KIB
    text = f"storage.objects.insert: {interruption(kind, kib)} x1 after call {part}"
    bench.blob("pushed").upload_from_string(b"good")
    bench.control.add_fault(text)
    with metered(bench.port) as traffic:
        result = bench.tpuctl("data", "push", str(bench.source), "gs://local-bucket/pushed")
    assert (result.code, bench.met()) == (0, [1]), result.err
    assert bench.blob("pushed").download_as_bytes(checksum="crc32c") == bench.data
    assert [each.name for each in bench.bucket.list_blobs()] == ["pushed", "whole"]
    assert traffic.sent_bytes <= SIZE_BYTES + CHUNK_BYTES + OVERHEAD_BYTES


def stop_reading(bench, kind, kib):
    """Interrupt a download after so many KiB; a refusal meets who comes back."""
    stream = interruption("stall" if kind == "stall" else "reset", kib)
    bench.control.add_fault(f"storage.objects.get: {stream} x1")
    if kind in REFUSALS:
        bench.control.add_fault(
            f"storage.objects.get: return-{kind} retry-after 1s x1 after call 2"
        )


@pytest.mark.parametrize(
    ("kind", "place"), places(["reset", "stall", "503", "429"], in_every_run="reset")
)
@pytest.mark.usefixtures("timeout")
def test_a_pull_that_is_interrupted(bench, tmp_path, kind, place):
    target = tmp_path / "target"
    target.write_bytes(b"good")
    stop_reading(bench, kind, place % CHUNK_BYTES // KIB)
    with metered(bench.port) as traffic:
        result = bench.tpuctl("data", "pull", "gs://local-bucket/whole", str(target))
    assert (result.code, set(bench.met())) == (0, {1}), result.err
    assert target.read_bytes() == bench.data
    assert list(tmp_path.iterdir()) == [target]
    assert traffic.received_bytes <= SIZE_BYTES + CHUNK_BYTES + OVERHEAD_BYTES


@pytest.mark.parametrize(
    ("kind", "place"), places(["reset", "stall", "503", "429"], in_every_run="503")
)
def test_a_resumable_upload_of_googles_client_that_is_interrupted(bench, timeout, kind, place):
    bench.control.add_fault(f"storage.objects.insert: {interruption(kind, place // KIB)} x1")
    blob = bench.blob("uploaded")
    with metered(bench.port) as traffic:
        blob.upload_from_filename(bench.source, if_generation_match=0, retry=QUICK, timeout=timeout)
    assert (bench.met(), blob.size) == ([1], SIZE_BYTES)
    assert bench.blob("uploaded").download_as_bytes(checksum="crc32c") == bench.data
    assert traffic.sent_bytes <= SIZE_BYTES + CHUNK_BYTES + OVERHEAD_BYTES


@pytest.mark.parametrize(("kind", "place"), places(["reset", "stall"], in_every_run="reset"))
def test_a_download_of_googles_client_that_is_interrupted(bench, tmp_path, timeout, kind, place):
    bench.control.add_fault(f"storage.objects.get: {interruption(kind, place // KIB)} x1")
    target = tmp_path / "target"
    with metered(bench.port) as traffic:
        bench.bucket.blob("whole").download_to_filename(
            target, retry=QUICK, timeout=timeout, checksum="crc32c"
        )
    assert (bench.met(), target.read_bytes() == bench.data) == ([1], True)
    assert traffic.received_bytes <= SIZE_BYTES + CHUNK_BYTES + OVERHEAD_BYTES


def killed(bench, *argv):
    """Run a command as a process until the fault has stopped it, and kill it there."""
    environment = {**os.environ, "TPUCTL_HOME": str(bench.home)}
    command = [sys.executable, "-P", "-m", "tpuctl", "data", *argv]
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as process:
        deadline_s = time.monotonic() + 60
        while bench.met() != [1]:
            assert time.monotonic() < deadline_s
            with pytest.raises(subprocess.TimeoutExpired):
                process.wait(0.02)
        process.send_signal(signal.SIGKILL)
    bench.control.clear_faults()


@pytest.mark.parametrize(("kind", "place"), places(["kill"], in_every_run="kill"))
def test_a_push_that_is_killed_goes_on_in_another_process(bench, kind, place):
    part, kib = place // CHUNK_BYTES, place % CHUNK_BYTES // KIB
    text = f"storage.objects.insert: {interruption('stall', kib)} x1 after call {part}"
    bench.blob("pushed").upload_from_string(b"good")
    bench.control.add_fault(text)
    killed(bench, "push", str(bench.source), "gs://local-bucket/pushed")
    assert bench.blob("pushed").download_as_bytes() == b"good"
    there_bytes = sum(each.size for each in bench.bucket.list_blobs(prefix="tpuctl/parts/"))
    with metered(bench.port) as traffic:
        result = bench.tpuctl("data", "push", str(bench.source), "gs://local-bucket/pushed")
    assert result.code == 0, result.err
    assert bench.blob("pushed").download_as_bytes(checksum="crc32c") == bench.data
    assert traffic.sent_bytes <= SIZE_BYTES - there_bytes + OVERHEAD_BYTES
    assert [each.name for each in bench.bucket.list_blobs()] == ["pushed", "whole"]


@pytest.mark.parametrize(("kind", "place"), places(["kill"], in_every_run="kill"))
def test_a_pull_that_is_killed_goes_on_in_another_process(bench, tmp_path, kind, place):
    target = tmp_path / "target"
    target.write_bytes(b"good")
    kib = place % CHUNK_BYTES // KIB
    bench.control.add_fault(f"storage.objects.get: {interruption('stall', kib)} x1")
    killed(bench, "pull", "gs://local-bucket/whole", str(target))
    assert target.read_bytes() == b"good"
    with metered(bench.port) as traffic:
        result = bench.tpuctl("data", "pull", "gs://local-bucket/whole", str(target))
    assert (result.code, target.read_bytes() == bench.data) == (0, True), result.err
    assert traffic.received_bytes <= SIZE_BYTES + OVERHEAD_BYTES
    assert list(tmp_path.iterdir()) == [target]


def test_what_arrives_damaged_is_never_taken(bench, tmp_path):
    target = tmp_path / "target"
    target.write_bytes(b"good")
    bench.control.add_fault("storage.objects.get: corrupt bytes")
    result = bench.tpuctl("data", "pull", "gs://local-bucket/whole", str(target))
    assert (result.code != 0, target.read_bytes()) == (True, b"good")
    assert min(bench.met()) >= 1
