"""gcsfs, unmodified, against the service."""

import gzip
import os
from collections.abc import Iterator

import gcsfs
import pytest

from client.storage.clients.storage_programs import AWKWARD, LARGE_BYTES, contents, tree

pytest_plugins = ("client.storage.clients.storage_programs",)
# gcsfs hands aiohttp its blocks as bytes.
pytestmark = pytest.mark.filterwarnings("ignore:Sending a large body:ResourceWarning")


@pytest.fixture
def files(shared_storage) -> Iterator[gcsfs.GCSFileSystem]:
    """The file system of the JSON API; the package's other one asks over gRPC what a bucket is."""
    yield gcsfs.core.GCSFileSystem(
        token="anon",
        endpoint_url=shared_storage.url,
        project="p",
        use_listings_cache=False,
        skip_instance_cache=True,
    )


@pytest.fixture
def box(files, request) -> str:
    name = request.node.name.replace("_", "-")[:50].rstrip("-")
    files.mkdir(name)
    return name


def test_buckets_come_and_go(files):
    files.mkdir("gcsfs-made")
    assert "gcsfs-made/" in files.ls("")
    files.pipe("gcsfs-made/x", b"x")
    with pytest.raises(gcsfs.retry.HttpError, match="not empty"):
        files.rmdir("gcsfs-made")
    files.rm("gcsfs-made/x")
    files.rmdir("gcsfs-made")
    assert not files.exists("gcsfs-made")


def test_files_come_back_whole_and_in_part(files, box):
    body = os.urandom(LARGE_BYTES)
    files.pipe(f"{box}/large", body)
    assert files.cat(f"{box}/large") == body
    assert files.cat_file(f"{box}/large", 5, 10) == body[5:10]
    assert files.cat_file(f"{box}/large", start=-4) == body[-4:]
    files.pipe(f"{box}/large", b"")
    assert files.cat(f"{box}/large") == b""
    with pytest.raises(FileNotFoundError):
        files.cat(f"{box}/none")


def test_a_stream_is_sent_in_blocks_and_checked(files, box):
    body = os.urandom(1_000_000)
    with files.open(f"{box}/stream", "wb", block_size=2**18, consistency="md5") as stream:
        stream.write(body)
    with files.open(f"{box}/stream", "rb", block_size=2**18, consistency="md5") as stream:
        stream.seek(400_000)
        assert stream.read(9) == body[400_000:400_009]
    assert files.info(f"{box}/stream")["size"] == 1_000_000


def test_a_tree_goes_there_and_back(files, box, tmp_path):
    source = tree(tmp_path / "source")
    files.put(f"{source}/", f"{box}/t/", recursive=True)
    assert sorted(files.find(box)) == sorted(f"{box}/t/{name}" for name in AWKWARD)
    files.get(f"{box}/t/", f"{tmp_path}/back/", recursive=True)
    assert contents(tmp_path / "back") == contents(source)


def test_listing_folds_and_finds(files, box):
    for name in ("a/1", "a/2", "b/1", "c"):
        files.pipe(f"{box}/{name}", b"x")
    assert files.ls(box, detail=False) == [f"{box}/a", f"{box}/b", f"{box}/c"]
    assert files.glob(f"{box}/**/1") == [f"{box}/a/1", f"{box}/b/1"]
    assert files.find(box, prefix="a/") == [f"{box}/a/1", f"{box}/a/2"]
    assert files.isdir(f"{box}/a")


def test_what_is_there_is_not_made_again(files, box):
    files.pipe_file(f"{box}/once", b"1", mode="create")
    with pytest.raises(FileExistsError):
        files.pipe_file(f"{box}/once", b"2", mode="create")
    assert files.cat(f"{box}/once") == b"1"


def test_metadata(files, box):
    files.pipe_file(f"{box}/x", b"1", content_type="text/x")
    files.setxattrs(f"{box}/x", content_type="text/y", run="7")
    assert files.getxattr(f"{box}/x", "run") == "7"
    assert files.info(f"{box}/x")["contentType"] == "text/y"


def test_copies_moves_and_merges(files, box):
    files.pipe(f"{box}/a #1", b"one")
    files.pipe(f"{box}/b", b"two")
    files.copy(f"{box}/a #1", f"{box}/d/ü")
    files.mv(f"{box}/b", f"{box}/e+")
    files.merge(f"{box}/all", [f"{box}/d/ü", f"{box}/e+"])
    assert files.cat(f"{box}/all") == b"onetwo"
    assert files.find(box) == [f"{box}/a #1", f"{box}/all", f"{box}/d/ü", f"{box}/e+"]


def test_older_generations_can_be_read(shared_storage, files):
    bucket = shared_storage.client().bucket("gcsfs-versions")
    bucket.versioning_enabled = True
    bucket.create()
    for body in (b"old", b"new"):
        files.pipe("gcsfs-versions/x", body)
    old, new = sorted(
        int(each["generation"]) for each in files.ls("gcsfs-versions/", detail=True, versions=True)
    )
    aware = gcsfs.core.GCSFileSystem(
        token="anon", endpoint_url=shared_storage.url, version_aware=True, skip_instance_cache=True
    )
    assert aware.cat(f"gcsfs-versions/x#{old}") == b"old"
    assert aware.cat(f"gcsfs-versions/x#{new}") == b"new"


def test_what_is_stored_compressed_is_read_plain(files, box):
    files.pipe_file(
        f"{box}/z", gzip.compress(b"hello" * 100), fixed_key_metadata={"content_encoding": "gzip"}
    )
    assert files.cat(f"{box}/z") == b"hello" * 100


def test_many_are_removed_in_batches(files, box):
    for number in range(5):
        files.pipe(f"{box}/d/{number} #?", b"x")
    files.rm(f"{box}/d", recursive=True)
    assert files.find(box) == []


def test_it_lists_page_by_page(files, box):
    names = [f"{box}/{number:04}" for number in range(1001)]
    files.pipe(dict.fromkeys(names, b""))
    assert files.find(box) == names
