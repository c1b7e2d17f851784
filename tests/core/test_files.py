"""Images, audio and documents from files, bytes and URLs."""

from __future__ import annotations

import base64
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenuto.core import media_types
from tenuto.core.blocks import Audio, Document, Image

PNG = b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR"
PDF = b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n"
WAV = b"RIFF\x24\x00\x00\x00WAVEfmt "
BMP = b"BM" + (70).to_bytes(4, "little") + bytes(4) + (54).to_bytes(4, "little") + (40).to_bytes(4, "little")

KNOWN = [
    (PNG, "image/png"),
    (b"\xff\xd8\xff\xe0\x00\x10JFIF", "image/jpeg"),
    (b"GIF87a\x01\x00", "image/gif"),
    (b"GIF89a\x01\x00", "image/gif"),
    (b"RIFF\x24\x00\x00\x00WEBPVP8 ", "image/webp"),
    (BMP, "image/bmp"),
    (b"\x00\x00\x00\x18ftypheic\x00\x00", "image/heic"),
    (b"\x00\x00\x00\x18ftypmif1\x00\x00", "image/heif"),
    (b"\x00\x00\x00\x18ftypavif\x00\x00", "image/avif"),
    (b"II*\x00\x08\x00", "image/tiff"),
    (b"MM\x00*\x00\x08", "image/tiff"),
    (WAV, "audio/wav"),
    (b"ID3\x04\x00\x00", "audio/mpeg"),
    (b"\xff\xfb\x90\x64", "audio/mpeg"),
    (b"\xff\xf3\x40\xc0", "audio/mpeg"),
    (b"\xff\xf1\x50\x80", "audio/aac"),
    (b"\xff\xf9\x50\x80", "audio/aac"),
    (b"OggS\x00\x02", "audio/ogg"),
    (b"fLaC\x00\x00", "audio/flac"),
    (b"\x00\x00\x00\x1cftypM4A \x00\x00", "audio/mp4"),
    (b"\x00\x00\x00\x1cftypisom\x00\x00", "video/mp4"),
    (b"FORM\x00\x00\x00\x24AIFFCOMM", "audio/aiff"),
    (PDF, "application/pdf"),
    (b"\xef\xbb\xbf\n%PDF-1.4", "application/pdf"),
    (b"<!DOCTYPE html><p>", "text/html"),
    (b"PK\x03\x04\x14\x00", "application/zip"),
]


@pytest.mark.parametrize("data, mime", KNOWN, ids=lambda x: x if isinstance(x, str) else "")
def test_type_is_detected_from_bytes(data, mime):
    assert media_types.detect_type(data) == mime


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"B",
        b"BM and text",
        b"hello",
        "\ufeffhello".encode("utf-16"),
        "hello".encode("utf-16"),
        b"BMabcd" + bytes(4) + b"abcdefgh",
        b"\xff\xeb\x90\x64",
        b"\xff\xfd\x90\x64",
        b"\xff\xfe",
        b"\xff\xff\xff\xff",
        b"RIFF",
        b"\xff\xfb\xf0\x00",
    ],
)
def test_unknown_bytes_have_no_type(data):
    assert media_types.detect_type(data) == ""


@given(st.binary(max_size=80))
def test_type_detection_never_raises(data):
    """The result is a media type or empty."""
    assert media_types.detect_type(data) in {mime for _, mime in KNOWN} | {
        "", "application/rtf", "audio/amr", "video/webm", "video/quicktime",
    }  # fmt: skip


# --- from a file ------------------------------------------------------------------------------------------------------


def test_image_is_read(tmp_path):
    path = tmp_path / "photo.png"
    path.write_bytes(PNG)

    for given_path in (path, str(path)):
        assert Image.from_path(given_path) == Image(base64.b64encode(PNG).decode(), "image/png")


def test_base64_has_no_line_breaks(tmp_path):
    path = tmp_path / "photo.png"
    path.write_bytes(PNG * 100)

    assert not set(Image.from_path(path).data) & set("\r\n ")


def test_type_of_bytes_wins_over_name(tmp_path):
    path = tmp_path / "photo.png"
    path.write_bytes(b"\xff\xd8\xff\xe0\x00\x10JFIF")

    assert Image.from_path(path).mime == "image/jpeg"
    assert Image.from_path(path, mime="image/x-own").mime == "image/x-own"


def test_name_gives_type_when_bytes_do_not(tmp_path):
    path = tmp_path / "SPEECH.MP3"
    path.write_bytes(b"\x00" * 16)

    assert Audio.from_path(path).mime == "audio/mpeg"


def test_audio_in_video_container_is_audio(tmp_path):
    assert Audio.from_bytes(b"\x00\x00\x00\x1cftypisom\x00\x00").mime == "audio/mp4"
    assert Audio.from_bytes(b"\x1aE\xdf\xa3\x00").mime == "audio/webm"
    assert Audio.from_bytes(WAV) == Audio(base64.b64encode(WAV).decode(), "audio/wav")
    assert Document.from_bytes(b"\x00\x00\x00\x1cftypisom\x00\x00").mime == "video/mp4"


def test_missing_file_raises_os_error(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"nothing\.png"):
        Image.from_path(tmp_path / "nothing.png")
    with pytest.raises(OSError):
        Document.from_path(tmp_path)


@pytest.mark.parametrize("kind", [Image, Audio, Document])
def test_empty_file_is_refused(kind, tmp_path):
    path = tmp_path / "a.png"
    path.touch()

    with pytest.raises(ValueError, match=r"a\.png is empty"):
        kind.from_path(path)
    with pytest.raises(ValueError, match="the data is empty"):
        kind.from_bytes(b"")


def test_unknown_type_error_names_file_and_remedy(tmp_path):
    path = tmp_path / "strange.xyz"
    path.write_bytes(b"\x00\x01\x02\x03")

    for kind in (Image, Audio, Document):
        with pytest.raises(ValueError, match=r"strange\.xyz.*pass mime="):
            kind.from_path(path)
    assert Image.from_path(path, mime="image/png").mime == "image/png"


def test_other_media_type_is_refused(tmp_path):
    path = tmp_path / "paper.png"
    path.write_bytes(PDF)

    with pytest.raises(ValueError, match=r"paper\.png is application/pdf, not an image"):
        Image.from_path(path)
    with pytest.raises(ValueError, match="is image/png, not audio"):
        Audio.from_bytes(PNG)
    with pytest.raises(ValueError, match="is image/png, not a document: use Image"):
        Document.from_bytes(PNG)
    with pytest.raises(ValueError, match="is audio/wav, not a document: use Audio"):
        Document.from_bytes(WAV)
    with pytest.raises(ValueError, match="is application/pdf, not an image"):
        Image.from_bytes(PNG, "application/pdf")
    with pytest.raises(ValueError, match="not a media type"):
        Image.from_bytes(PNG, "png")


# --- documents --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["a.txt", "notes.md", "t.csv", "d.json", "m.py", "Makefile", "x.rs", "page.html", "i.svg"]
)
def test_text_files_become_text(name, tmp_path):
    path = tmp_path / name
    path.write_bytes("Grüße\r\n<html>\t{}".encode())

    assert Document.from_path(path) == Document(text="Grüße\r\n<html>\t{}", mime="text/plain", title=name)


def test_byte_order_mark_is_dropped():
    assert Document.from_bytes(b"\xef\xbb\xbfhello").text == "hello"
    with pytest.raises(ValueError, match="empty"):
        Document.from_bytes(b"\xef\xbb\xbf")


def test_text_that_is_not_utf8_stays_data(tmp_path):
    path = tmp_path / "old.txt"
    path.write_bytes(b"Gr\xfc\xdfe")

    found = Document.from_path(path)
    assert (found.data, found.text, found.mime) == (base64.b64encode(b"Gr\xfc\xdfe").decode(), "", "text/plain")


def test_pdf_becomes_data(tmp_path):
    path = tmp_path / "paper.pdf"
    path.write_bytes(PDF)

    assert Document.from_path(path) == Document(base64.b64encode(PDF).decode(), "application/pdf", title="paper.pdf")
    assert Document.from_path(path, title="A paper").title == "A paper"
    assert Document.from_bytes(PDF, title="x.pdf") == Document(
        base64.b64encode(PDF).decode(), "application/pdf", title="x.pdf"
    )


def test_office_file_gets_type_from_name(tmp_path):
    path = tmp_path / "a.docx"
    path.write_bytes(b"PK\x03\x04\x14\x00")

    assert Document.from_path(path).mime.endswith("wordprocessingml.document")
    assert Document.from_bytes(b"PK\x03\x04\x14\x00").mime == "application/zip"


# --- URLs ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "url", ["http://x.org/a.png", "https://x.org", "gs://bucket/a", "s3://bucket/a", "HTTPS://X.org/?a#b"]
)
@pytest.mark.parametrize("kind", [Image, Audio, Document])
def test_url_is_passed_on(kind, url):
    assert kind.from_url(url) == kind(url=url)
    assert kind.from_url(url, mime="x/y") == kind(url=url, mime="x/y")


@pytest.mark.parametrize(
    "url",
    [
        "file:///etc/passwd",
        "ftp://x",
        "photo.png",
        "",
        "javascript:1",
        "http://",
        "http:a",
        "http:///x",
        "http://a b",
        "C:\\a.png",
    ],
)
@pytest.mark.parametrize("kind", [Image, Audio, Document])
def test_other_url_is_refused(kind, url):
    with pytest.raises(ValueError, match="use from_path for files"):
        kind.from_url(url)


def test_data_url_becomes_data():
    packed = base64.b64encode(PNG).decode()

    assert Image.from_url(f"data:image/png;base64,{packed}") == Image(packed, "image/png")
    assert Image.from_url(f"DATA:;Base64,{packed[:8]}%0A {packed[8:].rstrip('=')}") == Image(packed, "image/png")
    assert Image.from_url(f"data:application/octet-stream;base64,{packed}").mime == "image/png"
    assert Image.from_url(f"data:image/jpg;base64,{packed}").mime == "image/jpg"
    assert Document.from_url("data:text/plain;charset=utf-8,a%20%E2%82%AC+b", title="t") == Document(
        text="a €+b", mime="text/plain", title="t"
    )
    with pytest.raises(ValueError, match="is text/plain, not an image"):
        Image.from_url("data:text/plain,hello")


@pytest.mark.parametrize(
    "url, message",
    [
        ("data:image/png", "no comma"),
        ("data:image/png;base64,###", "invalid base64"),
        ("data:image/png;base64,a", "invalid base64"),
        ("data:,", "empty"),
    ],
)
def test_invalid_data_url_is_refused(url, message):
    with pytest.raises(ValueError, match=message):
        Image.from_url(url)


@given(st.binary(min_size=1, max_size=60), st.sampled_from(("image/png", "audio/wav", "application/pdf")))
def test_data_url_round_trip(data, mime):
    assert media_types.parse_data_url(f"data:{mime};base64,{media_types.to_base64(data)}") == (data, mime)
    assert media_types.parse_data_url(f"data:{mime}," + "".join(f"%{byte:02x}" for byte in data)) == (data, mime)


@given(st.text(max_size=40))
def test_any_url_is_accepted_or_refused(text):
    """Nothing but `ValueError` is raised, whatever the text is."""
    for url in (text, f"data:{text}", f"http://{text}"):
        for kind in (Image, Audio, Document):
            try:
                found = kind.from_url(url)
            except ValueError:
                continue
            assert found.url == url or found.data or found.text


def test_blocks_do_not_load_files_module():
    """A program that only sends text does not load them."""
    code = "import sys, tenuto.core.blocks; print('pathlib' in sys.modules or 'tenuto.core.files' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-S", "-c", code],
        capture_output=True,
        text=True,
        check=False,
        env={"PYTHONPATH": ":".join(sys.path)},
    )

    assert done.stdout.strip() == "False"
