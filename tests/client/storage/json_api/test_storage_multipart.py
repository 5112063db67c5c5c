"""The multipart framing, however the network cuts it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from localsim.rules.objects.storage_model import StorageError
from localsim.services.storage.wire.multipart import RelatedParser, boundary_of


def body(newline, media, preamble=b""):
    lines = [b"--B", b"Content-Type: application/json", b"", b'{"name": "x"}']
    lines += [
        b"--B",
        b"MIME-Version: 1.0",
        b"content-type:  a/b",
        b"",
        media,
        b"--B--",
        b"epilogue",
    ]
    return preamble + newline.join(lines)


def parsed(data, sizes):
    parser, media = RelatedParser(b"B"), b""
    while data:
        size = sizes.pop() if sizes else len(data)
        media += parser.feed(data[:size])
        data = data[size:]
    parser.check_end()
    return parser.metadata, parser.media_type, media


@given(
    newline=st.sampled_from([b"\r\n", b"\n"]),
    pieces=st.lists(
        st.sampled_from([b"\r", b"\n", b"--B", b"-", b"B", b"\x00", b"xyz", b"\n--Bx"])
    ),
    preamble=st.sampled_from([b"", b"\r\n", b"to whom it may concern\n"]),
    sizes=st.lists(st.integers(1, 9), max_size=60),
)
def test_media_comes_out_as_it_went_in(newline, pieces, preamble, sizes):
    media = b"".join(pieces)
    delimiter = newline + b"--B"
    for end in (b"--", b"\r", b"\n"):  # then it would be a boundary
        media = media.replace(delimiter + end, b"")
    if media.startswith(b"--B") or (newline + media).find(delimiter) == 0:
        media = b"x" + media
    if delimiter in media + newline[:1]:
        media = media.replace(delimiter, b"")
    assert parsed(body(newline, media, preamble), sizes) == (b'{"name": "x"}', "a/b", media)


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
def test_a_third_part_is_refused(size):
    data = body(b"\r\n", b"media").replace(b"--B--", b"--B\r\n\r\nthird\r\n--B--")
    with pytest.raises(StorageError, match="more than two parts"):
        parsed(data, [size] * len(data))


@pytest.mark.parametrize("cut", [0, 5, 40, 90, 95])
def test_a_cut_body_is_refused(cut):
    with pytest.raises(StorageError, match="closing boundary is missing"):
        parsed(body(b"\n", b"media")[:cut], [])


def test_an_endless_head_is_refused():
    parser = RelatedParser(b"B")
    with pytest.raises(StorageError, match="metadata part is too long"):
        for _ in range(20):
            parser.feed(b"x" * 100_000)


@pytest.mark.parametrize(
    ("content_type", "boundary"),
    [
        ('multipart/related; boundary="==a b=="', b"==a b=="),
        ("multipart/related; boundary='==B=='", b"==B=="),
        ("multipart/related; Boundary=B; charset=x", b"B"),
    ],
)
def test_the_boundary(content_type, boundary):
    assert boundary_of(content_type) == boundary


@pytest.mark.parametrize("content_type", ["", "application/json", "multipart/related"])
def test_no_boundary(content_type):
    with pytest.raises(StorageError):
        boundary_of(content_type)
