"""`read_file`, `write_file`, `edit_file`, `list_files`, `search_files`: effects and messages."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tenuto.tools import BUILTIN, Toolbox, builtin_tools
from tenuto.tools.builtin import files, matcher, search
from tenuto.tools.builtin.files import replace_text
from tools.calls import call, run

BOM = b"\xef\xbb\xbf"


@pytest.fixture
def tools(tmp_path):
    return builtin_tools(tmp_path)


def names(folder):
    return sorted(entry.name for entry in folder.iterdir())


def test_builtin_tools_have_effects_and_descriptions(tools):
    assert tuple(tools) == BUILTIN
    assert {name: (made.effect, made.approval) for name, made in tools.items()} == {
        "read_file": ("pure", False),
        "write_file": ("idempotent", True),
        "edit_file": ("once", True),
        "list_files": ("pure", False),
        "search_files": ("pure", False),
        "shell": ("once", True),
    }
    assert all(made.description for made in tools.values())
    assert all("context" not in made.parameters["properties"] for made in tools.values())
    assert all(
        "description" in property for made in tools.values() for property in made.parameters["properties"].values()
    ), "a parameter is not described"


def test_tools_are_chosen_by_name(tmp_path):
    assert tuple(builtin_tools(tmp_path, names=["shell", "read_file"])) == ("read_file", "shell")
    assert not builtin_tools(tmp_path, approval=False)["shell"].approval
    with pytest.raises(ValueError, match="unknown builtin tool 'rm': choose from read_file"):
        builtin_tools(tmp_path, names=["rm"])
    with pytest.raises(ValueError, match="shell_timeout"):
        builtin_tools(tmp_path, shell_timeout=0)


# --- reading ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("data", [b"one\ntwo\n", b"one\r\ntwo", b"\n", BOM + b"x\n"])
def test_read_file_returns_the_text(tools, tmp_path, data):
    (tmp_path / "f").write_bytes(data)

    assert tools["read_file"]("f").encode() == data.removeprefix(BOM)


def test_read_file_reports_omitted_lines(tools, tmp_path):
    (tmp_path / "f").write_text("1\n2\n3\n4\n")

    assert tools["read_file"]("f", offset=2, limit=2) == "2\n3\n[lines 2 to 3 of 4; continue with offset=4]"
    assert tools["read_file"]("f", offset=4) == "4\n[lines 4 to 4 of 4]"
    with pytest.raises(ValueError, match="f has 4 lines: offset=5 is after the last one"):
        tools["read_file"]("f", offset=5)


def test_long_file_can_be_read_in_parts(tools, tmp_path):
    lines = [f"{number}: {'x' * 90}" for number in range(1500)]
    (tmp_path / "f").write_text("\n".join(lines))
    seen, offset = [], 1
    while offset:
        *shown, note = tools["read_file"]("f", offset=offset).split("\n")
        seen += shown
        offset = int(note.partition("offset=")[2].rstrip("]") or 0)

    assert seen == lines


def test_long_line_is_cut(tools, tmp_path):
    (tmp_path / "f").write_text("x" * 200_000)

    assert "characters omitted" in tools["read_file"]("f")


def test_read_file_refuses_binary_and_large_files(tools, tmp_path, monkeypatch):
    (tmp_path / "png").write_bytes(b"\x89PNG\r\n\x1a\n\x00")
    (tmp_path / "latin").write_bytes(b"caf\xe9")
    (tmp_path / "empty").write_bytes(b"")
    (tmp_path / "huge").write_bytes(b"x" * 100)

    with pytest.raises(ValueError, match="png is not a text file: 9 bytes, image/png"):
        tools["read_file"]("png")
    with pytest.raises(ValueError, match="latin is not a text file: 4 bytes, not UTF-8"):
        tools["read_file"]("latin")
    assert tools["read_file"]("empty") == "[empty is empty]"
    monkeypatch.setattr(files, "MAX_FILE", 99)
    with pytest.raises(OSError, match="huge is too large: 100 bytes, the limit is 99"):
        tools["read_file"]("huge")


# --- writing ----------------------------------------------------------------------------------------------------------


def test_write_file_preserves_the_mode(tools, tmp_path):
    assert tools["write_file"]("a/b/c.sh", "é\r\n") == "created a/b/c.sh: 4 bytes"
    (tmp_path / "a/b/c.sh").chmod(0o750)
    assert tools["write_file"]("a/b/c.sh", "x") == "overwrote a/b/c.sh: 1 bytes"

    assert (tmp_path / "a/b/c.sh").read_bytes() == b"x"
    assert os.name == "nt" or stat.S_IMODE((tmp_path / "a/b/c.sh").stat().st_mode) == 0o750
    assert names(tmp_path / "a/b") == ["c.sh"]


def test_failed_write_leaves_the_old_file(tools, tmp_path, monkeypatch):
    (tmp_path / "f").write_text("old")

    def fail(handle):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match=r"^f: No space left on device$"):
        tools["write_file"]("f", "new")

    assert (names(tmp_path), (tmp_path / "f").read_text()) == (["f"], "old")


def test_write_file_reports_errors(tools, tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("x")

    with pytest.raises(IsADirectoryError, match="folder is a directory, not a file"):
        tools["write_file"]("folder", "x")
    with pytest.raises(NotADirectoryError, match="file is not a directory"):
        tools["write_file"]("file/x", "x")
    with pytest.raises(ValueError, match="half a surrogate pair"):
        tools["write_file"]("x", "\ud800")


# --- editing ----------------------------------------------------------------------------------------------------------


def test_edit_file_preserves_bom_and_line_ends(tools, tmp_path):
    (tmp_path / "f").write_bytes(BOM + b"one\r\ntwo\r\nthree\r\n")

    assert tools["edit_file"]("f", "one\ntwo", "1\n2\n2b") == "replaced once in f, line 1"
    assert (tmp_path / "f").read_bytes() == BOM + b"1\r\n2\r\n2b\r\nthree\r\n"


@pytest.mark.parametrize(
    "data, arguments, message",
    [
        (b"a b a", {"old": "a", "new": "x"}, r"occurs 2 times \(lines 1, 1\): include more of.*all=true"),
        (b"aaa", {"old": "aa", "new": "x"}, "2 times"),  # overlapping occurrences are ambiguous
        (b"a", {"old": "b", "new": "x"}, "old is not in the file; read the file"),
        (b"if x:\n\ty = 1\n", {"old": "if x:\n    y = 1", "new": ""}, "but line 1 differs from it only in white space"),
        (b"a", {"old": "", "new": "x"}, "old is empty"),
        (b"a", {"old": "a", "new": "a"}, "the same"),
        (b"\xff a", {"old": "a", "new": "b"}, "not UTF-8"),
        (b"a", {"old": "a", "new": "\ud800"}, "half a surrogate pair"),
        (b"b", {"old": "a", "new": "x", "all": True}, "not in the file"),
    ],
)
def test_ambiguous_edit_changes_nothing(tools, tmp_path, data, arguments, message):
    (tmp_path / "f").write_bytes(data)

    with pytest.raises(ValueError, match=message):
        tools["edit_file"]("f", **arguments)
    assert (tmp_path / "f").read_bytes() == data


def test_all_occurrences_can_be_edited(tools, tmp_path):
    (tmp_path / "f").write_text("a\nb\na\n")

    assert tools["edit_file"]("f", "a", "c", all=True) == "replaced 2 times in f, line 1, 3"
    assert (tmp_path / "f").read_text() == "c\nb\nc\n"


texts = st.text(st.sampled_from("ab\n\ré"), max_size=8)


@given(texts, texts.filter(bool), texts, texts, st.booleans())
def test_edit_changes_only_the_occurrence(before, old, after, new, mark):
    """In a file with one kind of line ends; all other bytes stay."""
    head = BOM if mark else b""
    text = before + old + after
    assume(old != new and "\r\n" not in text)
    offsets = [at for at in range(len(text)) if text.startswith(old, at)]
    data = head + text.encode()

    if len(offsets) == 1:
        assert replace_text(data, old, new)[0] == head + (before + new + after).encode()
    else:
        with pytest.raises(ValueError, match=f"{len(offsets)} times"):
            replace_text(data, old, new)
    assert replace_text(data, old, new, all=True)[0] == head + text.replace(old, new).encode()


@given(st.lists(st.text("ab", max_size=3), min_size=1, max_size=5), st.integers(0, 4), st.text("xy\n", max_size=4))
def test_edit_preserves_crlf(lines, at, new):
    """A file with CR LF has no other line ends after any edit."""
    lines = [*lines[:at], "unique", *lines[at:], ""]
    found, _ = replace_text("\r\n".join(lines).encode(), "unique", new or "x")

    assert found.count(b"\n") == found.count(b"\r\n")


# --- listing ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def tree(tmp_path):
    for path in ("src/main.py", "src/deep/er/x.py", "README.md", ".hidden/x.py", ".git/config", "a b.txt"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text("needle here\nand not\n")
    (tmp_path / "link").symlink_to("src")
    return tmp_path


def test_list_files_sorts_and_shows_sizes(tools, tree):
    assert tools["list_files"](depth=2).splitlines() == [
        "README.md  20",
        "a b.txt  20",
        "link  [link, not followed]",
        "src/",
        "src/deep/",
        "src/main.py  20",
        "[2 hidden: hidden=true lists them]",
    ]


def test_list_files_filters_by_pattern(tools, tree):
    assert tools["list_files"](pattern="*.py", depth=9).splitlines()[:-1] == ["src/deep/er/x.py  20", "src/main.py  20"]
    assert tools["list_files"]("src", pattern="src/*.py") == "src/main.py  20"
    assert tools["list_files"]("src", pattern="*.c") == "[no files found]"
    assert ".hidden/x.py  20" in tools["list_files"](hidden=True)
    assert ".git/config" not in tools["list_files"](hidden=True)


def test_long_list_is_cut(tools, tmp_path, monkeypatch):
    monkeypatch.setattr(files, "_MAX_ENTRIES", 3)
    for number in range(5):
        (tmp_path / f"{number}").touch()

    assert tools["list_files"]().splitlines()[2:] == ["2  0", "[2 more: choose a directory or a narrower pattern]"]


def test_list_files_shows_names_that_are_not_utf8(tools, tmp_path):
    try:
        (tmp_path / os.fsdecode(b"caf\xe9\n")).touch()
    except OSError:
        pytest.skip("this system has no such names")

    assert tools["list_files"]() == "caf\ufffd\\n  0"


def test_list_files_refuses_unreadable_pattern(tools):
    with pytest.raises(ValueError, match="at most 300 characters"):
        tools["list_files"](pattern="*a" * 151)
    with pytest.raises(ValueError, match="reversed range z-a"):
        tools["list_files"](pattern="[z-a]")


# --- searching --------------------------------------------------------------------------------------------------------


def test_search_files_finds_text(tools, tree):
    (tree / "bin").write_bytes(b"needle\x00")

    assert tools["search_files"]("needle").splitlines() == [
        "README.md:1: needle here",
        "a b.txt:1: needle here",
        "src/deep/er/x.py:1: needle here",
        "src/main.py:1: needle here",
        "[1 files skipped: binary or too large]",
    ]
    assert tools["search_files"]("needle", pattern="*.md") == "README.md:1: needle here"
    assert tools["search_files"]("needle", path="src/main.py") == "src/main.py:1: needle here"
    assert ".hidden/x.py:1: needle here" in tools["search_files"]("needle", hidden=True)
    assert ".git" not in tools["search_files"]("needle", hidden=True)
    assert tools["search_files"]("nothing", path="src") == "[no matches in 2 files]"


def test_search_files_finds_regex(tools, tree):
    assert tools["search_files"]("(?i)^AND +n.t$", path="README.md", regex=True) == "README.md:2: and not"
    with pytest.raises(ValueError, match=r"invalid regular expression: .*omit regex=true"):
        tools["search_files"]("(", regex=True)
    with pytest.raises(ValueError, match="has a line break"):
        tools["search_files"]("a\nb")
    with pytest.raises(FileNotFoundError, match="nowhere not found"):
        tools["search_files"]("a", path="nowhere")


def test_slow_regex_is_stopped(tmp_path, monkeypatch):
    """The expression runs in another process, so the event loop is not blocked."""
    monkeypatch.setattr(search, "_SECONDS", 0.5)
    (tmp_path / "f").write_text("a" * 60)

    outcome = run(builtin_tools(tmp_path).values(), call("search_files", text="(a+)+b", regex=True))

    assert (outcome.outcome, outcome.detail) == ("failed", "exception")
    assert "the regular expression took more than 0.5 s" in outcome.result.content


@pytest.mark.skipif(not hasattr(signal, "alarm"), reason="no alarm here")
def test_matcher_ends_after_its_time_limit():
    """Also if the process that started it was killed and the expression never ends."""
    lines = [["(a+)+b", 3, 1], "a" * 60]
    lines_in = "".join(f"{json.dumps(line)}\n" for line in lines)

    done = subprocess.run(
        [sys.executable, matcher.__file__], input=lines_in, text=True, capture_output=True, check=False
    )

    assert (done.returncode, done.stdout) == (-signal.SIGALRM, "null\n")


def test_too_many_matches_are_cut(tools, tmp_path, monkeypatch):
    monkeypatch.setattr(search, "_MAX_LINES", 3)
    monkeypatch.setattr(search, "_MAX_PER_FILE", 2)
    for name in "abc":
        (tmp_path / name).write_text("x" * 400 + "\nx\nx\n")

    for regex in (False, True):
        first, second, more, stopped = tools["search_files"]("x", regex=regex).splitlines()
        assert (first, second) == (f"a:1: {'x' * 300} [...]", "a:2: x")
        assert more == "a: [more than 2 lines, the others are omitted]"
        assert stopped.startswith("[stopped after 3 lines")


def test_builtin_tools_run_in_a_toolbox(tools, tmp_path):
    (tmp_path / "f").write_text("hello\n")

    assert run(tools.values(), call("read_file", path="f")).result.content == "hello\n"
    assert run(tools.values(), call("read_file", path="../f")).result.is_error
    assert Toolbox(tools.values()).prepare(call("read_file", path="f", offset=0)).detail == "arguments"
