"""The files of bodies: shared by links, held while they are read, removed when nobody has them."""

import dataclasses
import errno
import os
from contextlib import closing

import pytest

from localsim.rules.objects.files import body_directory as objects_bodies
from localsim.rules.objects.files import incoming_body as objects_incoming
from localsim.rules.objects.files.body_directory import BodyDirectory
from localsim.rules.objects.files.incoming_body import INLINE_BYTES, ObjectBody
from localsim.rules.objects.files.object_database import ObjectDatabase
from localsim.rules.objects.storage_model import Hashes, StorageError, encode_crc32c, extend_crc32c

BIG = os.urandom(INLINE_BYTES + 1)
MANY = b"x" * (16 * 1024 + 1)
MD5 = "ga7AQWuEQ3X0MNxOk3Di2g=="


class Bodies:
    """A directory of bodies, and a database that takes changes."""

    def __init__(self, directory):
        self.directory = directory
        self.database = ObjectDatabase(directory / "objects.sqlite")
        self.kept = BodyDirectory(directory, self.database)
        self.change, self.close = self.database.change, self.database.close

    def sealed(self, data, expected=None):
        incoming = self.kept.receive()
        incoming.write(data)
        return self.kept.seal(incoming, expected or Hashes())

    def joined(self, *datas):
        bodies = [self.sealed(data) for data in datas]
        with self.change():
            return self.kept.joined(bodies)

    def read(self, body):
        return body.data or b"".join(self._path(file).read_bytes() for file in body.files)

    def files(self):
        return {path.name for path in self.directory.glob("objects/*/*")}

    def _path(self, file):
        return next(self.directory.glob(f"objects/*/{file}"))


@pytest.fixture
def bodies(tmp_path):
    with closing(Bodies(tmp_path)) as found:
        yield found


def crc32c(data):
    return encode_crc32c(extend_crc32c(0, data))


def test_small_bodies_join_to_a_small_one(bodies):
    assert bodies.joined(b"ab", b"", b"c") == ObjectBody(3, "Nks/tw==", None, data=b"abc")
    assert bodies.files() == set()


def test_large_bodies_share_their_bytes_and_small_ones_between_them_are_written_once(bodies):
    whole = bodies.joined(b"a", b"b", BIG, b"", BIG)
    assert bodies.read(whole) == b"ab" + BIG + BIG
    assert (whole.size_bytes, whole.crc32c) == (2 + 2 * len(BIG), crc32c(b"ab" + BIG + BIG))
    assert (len(whole.files), whole.md5) == (3, None)
    links = sorted(path.stat().st_nlink for path in bodies.directory.glob("objects/*/*"))
    assert links == [1, 2, 2, 2, 2]


def test_one_body_again_is_the_same_with_its_md5(bodies):
    body = dataclasses.replace(bodies.sealed(BIG), md5=MD5)
    with bodies.change():
        again = bodies.kept.joined([body])
    assert (again.md5, again.crc32c) == (MD5, body.crc32c)
    assert set(again.files).isdisjoint(body.files)
    bodies.kept.remove(body.files)
    assert bodies.read(again) == BIG


def test_links_of_a_change_that_fails_are_removed(bodies):
    body = bodies.sealed(BIG)
    with pytest.raises(ZeroDivisionError), bodies.change():
        bodies.kept.joined([body, bodies.sealed(b"a")])
        raise ZeroDivisionError
    assert bodies.files() == set(body.files)


def test_a_sealed_body_that_is_not_published_is_removed(bodies):
    body = bodies.sealed(BIG)
    with pytest.raises(ZeroDivisionError), bodies.change():
        bodies.kept.keep(body)
        raise ZeroDivisionError
    assert bodies.files() == set()


def test_what_is_held_is_removed_when_the_last_reader_has_gone(bodies):
    file = bodies.sealed(BIG).files
    with bodies.kept.hold(file):
        with bodies.kept.hold(file):
            bodies.kept.remove(file)
            with pytest.raises(FileNotFoundError):
                bodies.kept.hold(file)
        assert bodies.files() == set(file)
    assert bodies.files() == set()
    with pytest.raises(FileNotFoundError):
        bodies.kept.hold(file)


def test_an_md5_is_calculated_unless_nobody_wants_it(bodies):
    assert bodies.sealed(b"abc").md5 == "kAFQmDzST7DWlj99KOF/cg=="
    assert bodies.sealed(MANY).md5 == MD5
    assert bodies.sealed(MANY, Hashes(wants_md5=False)).md5 is None
    assert bodies.sealed(MANY, Hashes(md5=MD5, wants_md5=False)).md5 == MD5


def test_files_are_for_the_owner_alone(bodies):
    bodies.joined(b"a", BIG)
    half = bodies.kept.receive()
    half.write(BIG)
    half.close()
    paths = [path for path in bodies.directory.rglob("*") if path.is_file()]
    assert len(paths) == 7
    assert {path.stat().st_mode & 0o777 for path in paths} == {0o600}


def test_bytes_that_one_flush_has_lost_are_not_durable_by_the_next(bodies, monkeypatch):
    flushes = iter([OSError(errno.EIO, "the disk fails")])

    def flush(_descriptor):
        for error in flushes:
            raise error

    monkeypatch.setattr(objects_incoming, "synchronize_file", flush)
    monkeypatch.setattr(objects_incoming, "FLUSH_BYTES", len(BIG))
    with closing(bodies.kept.receive()) as incoming:
        assert incoming.write(BIG) is None
        lost = incoming.write(BIG)
        with pytest.raises(StorageError, match="EIO"):
            lost.result()
        with pytest.raises(StorageError, match="EIO"):
            incoming.sync()


def test_nobody_relies_on_a_folder_before_it_is_durable(bodies, monkeypatch):
    def fail(_path):
        raise OSError(errno.EIO, "the disk fails")

    first, second = (bodies.kept.receive("ab" + digit * 30) for digit in "12")
    for incoming in (first, second):
        incoming.write(BIG)
    with monkeypatch.context() as failing:
        failing.setattr(objects_bodies, "synchronize", fail)
        with pytest.raises(StorageError, match="EIO"):
            bodies.kept.seal(first, Hashes())
        with pytest.raises(StorageError, match="EIO"):
            bodies.kept.seal(second, Hashes())
    third = bodies.kept.receive("ab" + "3" * 30)
    third.write(BIG)
    assert bodies.kept.seal(third, Hashes()).size_bytes == len(BIG)
