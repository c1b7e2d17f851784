"""`-a`: files, URLs and stdin become parts of the message, or one clear error."""

from __future__ import annotations

import base64
import io
import os
import sys
import threading

import click
import pytest

from tenuto.blocks import Audio, Image, Text
from tenuto.cli.session import attachments
from tenuto.cli.session.attachments import load_attachments

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="uses files that only other systems have")
PNG = b"\x89PNG\r\n\x1a\n" + bytes(20)
MP3 = b"ID3" + bytes(20)
MP4 = bytes(4) + b"ftypisom" + bytes(20)
ZIP = b"PK\x03\x04" + bytes(20)


@pytest.fixture
def file(tmp_path, monkeypatch):
    """Write a file into the current directory."""
    monkeypatch.chdir(tmp_path)

    def write(name, data):
        (tmp_path / name).write_bytes(data)
        return name

    return write


@pytest.fixture
def piped(monkeypatch):
    """Put bytes into stdin."""
    return lambda data: monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))


def packed(data):
    return base64.b64encode(data).decode()


def refused(names, message, **options):
    with pytest.raises(click.UsageError, match=message) as error:
        load_attachments(names, **options)
    assert "\n" not in error.value.message


def test_the_order_stays(file, piped, monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    piped(MP3)
    file("b.txt", b"b")
    found = load_attachments(["~/b.txt", "-", file("a.png", PNG), "https://example.com/x/a.JPG?size=3#top"])

    assert found[0] == Text('File "~/b.txt":\n```\nb\n```')
    assert [type(part) for part in found[1:]] == [Audio, Image, Image]
    assert found[-1] == Image(url="https://example.com/x/a.JPG?size=3#top", mime="image/jpeg")
    assert load_attachments([]) == ()


def test_a_pipe_of_a_shell_is_read(tmp_path):
    """As in `-a <(git diff)`."""
    os.mkfifo(tmp_path / "pipe")
    writer = threading.Thread(target=(tmp_path / "pipe").write_bytes, args=(b"from a pipe",))
    writer.start()
    [found] = load_attachments([str(tmp_path / "pipe")])
    writer.join()

    assert "from a pipe" in found.text


@pytest.mark.parametrize(
    "name, message",
    [
        ("nots.md", r"-a nots\.md: file not found; did you mean notes\.md\?"),
        ("zzz", r"-a zzz: file not found$"),
        ("no/where.txt", r"file not found; directory not found: no"),
        ("folder", r"-a folder is a directory: name the files in it"),
        ("", r"-a '' is a directory"),
        ("empty.txt", r"-a empty\.txt is empty"),
        ("blob", r"-a blob cannot be attached \(4 bytes\): it is not UTF-8 text, and its type is unknown; supported"),
        ("a\0b", r"-a a\\x00b cannot be read: "),
        ("~nobody-has-this-name/x", r"cannot be read: "),
        ("/proc/self/mem", r"-a /proc/self/mem cannot be read: Input/output error"),
        ("file:///etc/passwd", r"a file is named by its path alone"),
        ("https://[/a.png", r"-a https://\[/a\.png: "),
        ("https://example.com/page", r"URL type unknown: .*curl -sL URL"),
        ("x" * 5000, r"-a x{197}\.\.\. cannot be read: "),
    ],
)
def test_an_unusable_name_is_an_error_in_one_line(file, tmp_path, name, message):
    for other, data in (("notes.md", b"x"), ("empty.txt", b""), ("blob", b"\0\1\2\3")):
        file(other, data)
    (tmp_path / "folder").mkdir()

    refused([name], message)


def test_sizes_are_limited(file, tmp_path, monkeypatch, piped):
    """A file that is too large is not read; the limit is for all attachments; endless input ends."""
    with (tmp_path / "big.bin").open("wb") as sparse:
        sparse.truncate(80_000_000_000)
    refused([str(tmp_path / "big.bin")], r"big\.bin is too large: 80,000\.0 MB; the limit is 75 MB in all$")
    monkeypatch.setattr(attachments, "MAX_BYTES", 100)
    pair = [file("a.png", PNG + bytes(40)), file("b.png", PNG + bytes(40))]
    refused(pair, r"b\.png is too large: .* in all \(0\.0 MB are used by the others\)")
    piped(bytes(101))
    refused(["-"], r"stdin is too large: more than 0\.0 MB")
    refused(["/dev/zero"], r"/dev/zero is too large: more than")


def test_stdin_is_read_once(piped, monkeypatch):
    piped(b"hi")
    refused(["-", "-"], "pass it once")
    refused(["-"], "cannot both be stdin", prompt_from_stdin=True)
    assert load_attachments(["-"]) == (Text('File "stdin":\n```\nhi\n```'),)
    closed = io.TextIOWrapper(io.BytesIO())
    closed.close()
    for stdin in (None, closed):
        monkeypatch.setattr(sys, "stdin", stdin)
        refused(["-"], "which is not a pipe or file")


def test_the_parts_follow_the_prompt(here, tenuto_sim, file):
    """From an argument and from stdin, with and without a prompt."""
    image, text = ("-a", file("a.png", PNG)), ("-a", file("b.md", b"b"))
    calls = [
        (["What?", *image, "-a", "-", *text], PNG, ["What?", "image", "image", "b.md"]),
        ([*image], None, ["image"]),
        (["-", *image], "from stdin", ["from stdin", "image"]),
    ]
    for arguments, stdin, expected in calls:
        assert here("run", *arguments, stdin=stdin).code == 0
        parts = tenuto_sim.requests[-1].body["messages"][0]["content"]
        assert [part["type"] if part["type"] == "image" else name in part["text"] and name
                for part, name in zip(parts, expected, strict=True)] == expected  # fmt: skip


def test_part_that_the_model_does_not_take_is_not_sent(here, tenuto_sim, file):
    done = here("run", "x", "-a", file("a.mp3", MP3), "-m", "sim/anthropic")

    assert done[:2] == (2, "")
    assert "sim/anthropic does not take audio in a user message" in done.err
    assert not tenuto_sim.requests
