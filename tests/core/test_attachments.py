"""Files and URLs as parts of a message."""

from __future__ import annotations

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenuto.core.attachments import part_from_bytes, part_from_url
from tenuto.core.blocks import Audio, Document, Image, Text

PNG = b"\x89PNG\r\n\x1a\n" + bytes(20)
MP4 = bytes(4) + b"ftypisom" + bytes(20)
ZIP = b"PK\x03\x04" + bytes(20)


def packed(data):
    return base64.b64encode(data).decode()


@pytest.mark.parametrize(
    "name, data, expected",
    [
        ("a.txt", PNG, Image(packed(PNG), "image/png")),
        ("a.txt", MP4, Document(packed(MP4), "video/mp4", title="a.txt")),
        ("a.md", b"# Hi\n", Text('File "a.md":\n```\n# Hi\n```')),
        ("a.md", b"\xef\xbb\xbfHi", Text('File "a.md":\n```\nHi\n```')),
        ("Makefile", b"all:\r\n\tx\n", Text('File "Makefile":\n```\nall:\r\n\tx\n```')),
        ("a.png", b"no picture", Text('File "a.png":\n```\nno picture\n```')),
        ("a.m4a", MP4, Audio(packed(MP4), "audio/mp4")),
        ("a.aac", b"\x00\x01", Audio(packed(b"\x00\x01"), "audio/aac")),
        ('a"`.txt', b"x", Text("File \"a''.txt\":\n```\nx\n```")),
    ],
)
def test_bytes_decide_the_type_before_the_name(name, data, expected):
    assert part_from_bytes(data, name) == expected


@given(st.lists(st.sampled_from(["`", "```", "\n", 'File "x":', "a", "~~~", "\r\n"]), min_size=1).map("".join))
def test_text_cannot_end_its_fence(text):
    found = part_from_bytes(text.encode(), "a.txt").text
    head, fence, *_, last = found.split("\n")

    assert head == 'File "a.txt":'
    assert fence == last == "`" * len(fence)
    assert len(fence) >= 3
    assert fence not in text
    assert text in found


@pytest.mark.parametrize(
    "name, data, message",
    [
        (
            "blob",
            b"\0\1\2\3",
            r"cannot be attached \(4 bytes\): it is not UTF-8 text, and its type is unknown; supported",
        ),
        ("latin.txt", "naïve".encode("latin-1")[:4], r"it is not UTF-8 text"),
        ("a.zip", ZIP, r"cannot be attached \(24 bytes\): it is application/zip"),
        ("a.txt", b"x" * 20_000_001, r"is too large: 20\.0 MB of text; the limit is 20 MB"),
    ],
    ids=["binary", "latin-1", "zip", "large"],
)
def test_file_that_no_model_reads_is_refused(name, data, message):
    with pytest.raises(ValueError, match=message):
        part_from_bytes(data, name)


def test_suffix_of_a_url_decides_its_type():
    assert part_from_url("HTTP://x.com/a.webp?size=3#top") == Image(
        url="HTTP://x.com/a.webp?size=3#top", mime="image/webp"
    )
    assert part_from_url("https://x.com/a.mp3") == Audio(url="https://x.com/a.mp3", mime="audio/mpeg")
    assert part_from_url("gs://x/film.mp4") == Document(url="gs://x/film.mp4", mime="video/mp4")


@pytest.mark.parametrize(
    "url, message",
    [
        ("ftp://example.com/a.png", "a URL starts with http"),
        ("https://exa mple.com/a.png", "is not a URL"),
        ("https://example.com/page", "URL type unknown"),
        ("https://example.com/a.html", "URL type unknown"),
    ],
)
def test_url_of_another_kind_is_refused(url, message):
    with pytest.raises(ValueError, match=message):
        part_from_url(url)
