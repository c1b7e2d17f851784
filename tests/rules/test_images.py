"""The type and size of an image, from its first bytes."""

from __future__ import annotations

import base64

import pytest

from tenuto.rules.images import decode_head, decoded_size, read_head


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\1\2\0\0\3\4", ("image/png", 0x102, 0x304)),
        (b"\xff\xd8\xff\xe0\0\4ab\xff\xff\xc4\0\2\xff\xc2\0\x0b\x08\3\4\5\6\0", ("image/jpeg", 0x506, 0x304)),
        (b"\xff\xd8\xff\xe0\0\4ab", ("image/jpeg", 0, 0)),
        (b"GIF89a\5\6\7\x08", ("image/gif", 0x605, 0x807)),
        (b"RIFF....WEBPVP8X....\0\0\0\0\1\2\0\3\4\0", ("image/webp", 0x202, 0x404)),
        (b"RIFF....WEBPVP8L....\x2f\1\x80\0\0", ("image/webp", 2, 3)),
        (b"RIFF....WEBPVP8 ....\0\0\0\x9d\1\x2a\5\6\7\x08", ("image/webp", 0x605, 0x807)),
        (b"RIFF....WEBP????", ("image/webp", 0, 0)),
        (b"%PDF", ("", 0, 0)),
    ],
)
def test_head_of_image_has_type_and_size(data, expected):
    assert read_head(data) == expected


def test_base64_is_decoded_at_its_start():
    data = base64.b64encode(b"ab" * 300_000).decode()

    assert decode_head(data).startswith(b"abab")
    assert decode_head("not base64!") == b""
    assert decoded_size(data) == 600_000
