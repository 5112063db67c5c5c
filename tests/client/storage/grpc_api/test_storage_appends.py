"""Objects that are appended to, with the classes of google.cloud.storage.asyncio."""

import os
from io import BytesIO

import google_crc32c
import pytest
from google.api_core import exceptions
from google.cloud.storage.asyncio.async_appendable_object_writer import (
    AsyncAppendableObjectWriter,
)
from google.cloud.storage.asyncio.async_multi_range_downloader import AsyncMultiRangeDownloader

from client.storage.grpc_api.grpc_fixtures import ZONAL
from client.storage.storage_fixtures import HIERARCHICAL

pytest_plugins = ("client.storage.grpc_api.grpc_fixtures",)

MIB = 1024 * 1024


@pytest.fixture
def zonal(wires):
    return wires.new_box(**ZONAL)


async def downloaded(client, box, name, *ranges):
    buffers = [BytesIO() for _ in ranges]
    async with AsyncMultiRangeDownloader(client, box.name, name) as reader:
        await reader.download_ranges(
            [
                (start, length, buffer)
                for (start, length), buffer in zip(ranges, buffers, strict=True)
            ]
        )
        return [buffer.getvalue() for buffer in buffers], reader.persisted_size


@pytest.mark.parametrize("size", [256, 300_000, 5 * MIB + 1])
def test_what_is_written_comes_back(wires, zonal, size):
    data = os.urandom(size)

    async def story():
        client = wires.client()
        writer = AsyncAppendableObjectWriter(client, zonal.name, "dir/x")
        await writer.open()
        await writer.append(data[: size // 3])
        await writer.append(data[size // 3 :])
        written = await writer.close(finalize_on_close=True)
        assert (written.size, written.checksums.crc32c) == (size, google_crc32c.value(data))
        (whole, part), known = await downloaded(client, zonal, "dir/x", (0, 0), (10, 100))
        assert (whole, part, known) == (data, data[10:110], size)

    wires.run(story())
    shown = zonal.request("GET", f"{zonal.objects}/dir%2Fx").json
    assert (shown["size"], shown["storageClass"]) == (str(size), "RAPID")
    assert "timeFinalized" in shown
    assert zonal.media("dir%2Fx") == data
    assert zonal.request("GET", f"{zonal.bucket_path}/folders/dir%2F").status == 200


def test_what_is_flushed_can_be_read_at_once(wires, zonal):
    async def story():
        client = wires.client()
        writer = AsyncAppendableObjectWriter(client, zonal.name, "x")
        await writer.open()
        await writer.append(b"one")
        assert await writer.flush() == 3
        shown = zonal.request("GET", f"{zonal.objects}/x").json
        assert (shown["size"], shown["generation"]) == ("3", str(writer.generation))
        assert "timeFinalized" not in shown
        assert await downloaded(client, zonal, "x", (0, 0)) == ([b"one"], 3)
        second = AsyncAppendableObjectWriter(client, zonal.name, "x", generation=writer.generation)
        await second.open()
        await second.append(b"two" * 100_000)
        await second.close()
        assert zonal.media("x") == b"one" + b"two" * 100_000
        third = AsyncAppendableObjectWriter(client, zonal.name, "x", generation=writer.generation)
        await third.open()
        assert third.offset == 300_003
        await third.append(b".")
        whole = google_crc32c.value(b"one" + b"two" * 100_000 + b".")
        with pytest.raises(exceptions.InvalidArgument):
            await third.finalize(full_object_checksum=whole ^ 1)
        last = AsyncAppendableObjectWriter(client, zonal.name, "x", generation=writer.generation)
        await last.open()
        assert (await last.finalize(full_object_checksum=whole)).size == 300_004
        late = AsyncAppendableObjectWriter(client, zonal.name, "x", generation=writer.generation)
        with pytest.raises(exceptions.FailedPrecondition):
            await late.open()

    wires.run(story())
    assert zonal.media("x").endswith(b"two.")


def test_a_new_writer_takes_the_place_of_an_earlier_one(wires, zonal):
    async def story():
        client = wires.client()
        first = AsyncAppendableObjectWriter(client, zonal.name, "x")
        await first.open()
        await first.append(b"lost")
        second = AsyncAppendableObjectWriter(client, zonal.name, "x", generation=first.generation)
        await second.open()
        with pytest.raises(exceptions.Aborted):
            await first.flush()
        await second.append(b"kept")
        await second.close(finalize_on_close=True)

    wires.run(story())
    assert zonal.media("x") == b"kept"


def test_preconditions_and_places(wires, zonal):
    async def story():
        client = wires.client()
        writer = AsyncAppendableObjectWriter(client, zonal.name, "x", generation=0)
        await writer.open()
        generation = writer.generation
        await writer.close()
        again = AsyncAppendableObjectWriter(client, zonal.name, "x", generation=0)
        with pytest.raises(exceptions.FailedPrecondition) as refused:
            await again.open()
        assert refused.value.code == 400
        anew = AsyncAppendableObjectWriter(client, zonal.name, "x")
        await anew.open()
        assert anew.generation > generation
        await anew.close()
        gone = AsyncAppendableObjectWriter(client, zonal.name, "x", generation=generation)
        with pytest.raises(exceptions.NotFound):
            await gone.open()
        elsewhere = wires.new_box(**HIERARCHICAL)
        writer = AsyncAppendableObjectWriter(client, elsewhere.name, "x")
        with pytest.raises(exceptions.FailedPrecondition, match="appendable"):
            await writer.open()
        await client.delete_object(zonal.name, "x")
        with pytest.raises(exceptions.NotFound):
            await client.get_object(zonal.name, "x")

    wires.run(story())
    assert zonal.incoming == []


def test_a_range_behind_the_end_is_refused(wires, zonal):
    zonal.upload("x", b"0123456789")

    async def story():
        client = wires.client()
        assert await downloaded(client, zonal, "x", (10, 0)) == ([b""], 10)
        with pytest.raises(exceptions.OutOfRange):
            await downloaded(client, zonal, "x", (11, 1))

    wires.run(story())


def test_metadata_changes_leave_an_object_open(wires, zonal):
    async def story():
        client = wires.client()
        writer = AsyncAppendableObjectWriter(client, zonal.name, "x")
        await writer.open()
        change = b'{"contentType": "text/plain"}'
        assert zonal.request("PUT", f"{zonal.objects}/x", change).status == 200
        await writer.append(b"more")
        await writer.close(finalize_on_close=True)
        reply = zonal.request("PATCH", f"{zonal.objects}/x", change)
        assert reply.json["timeFinalized"] == reply.json["timeFinalized"]

    wires.run(story())
    path = f"{zonal.objects}/x/rewriteTo/b/{zonal.name}/o/copy"
    copied = zonal.request("POST", path, b"").json["resource"]
    assert "timeFinalized" in copied
