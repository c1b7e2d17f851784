"""Input of a chat: lines, slash commands, the history and completion."""

from __future__ import annotations

import asyncio
import os
import stat
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenuto.cli.session.slash_commands import SLASH_COMMANDS, SlashInput, complete_input, parse_input
from tenuto.cli.terminal.input import History, LineReader


def test_a_canceled_read_takes_no_input():
    async def play():
        read_end, write_end = os.pipe()
        lines = LineReader(read_end)
        waiting = asyncio.create_task(lines.line())
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        os.write(write_end, b"one\ntw")
        first, second = await lines.line(), asyncio.create_task(lines.line())
        os.write(write_end, b"o")
        os.close(write_end)
        found = [first, await second, await lines.line()]
        os.close(read_end)
        return found

    assert asyncio.run(play()) == [b"one\n", b"two", b""]


@pytest.mark.parametrize(
    "text, expected",
    [
        ("/model sim/openai:high ", SlashInput("model", "sim/openai:high")),
        ("/UNDO\t2", SlashInput("undo", "2")),
        ("/", SlashInput("")),
        ("/ model", SlashInput("", "model")),
        ("/usr/bin is a directory", SlashInput("usr/bin", "is a directory")),
        ("//usr/bin is a directory", "/usr/bin is a directory"),
        (" /model", " /model"),
        ("/usr/bin\nis a directory", "/usr/bin\nis a directory"),
    ],
)
def test_commands_start_with_a_slash(text, expected):
    assert parse_input(text) == expected


def test_the_history_stores_messages_privately(tmp_path):
    path = tmp_path / "new" / "history"
    history = History(path)
    for text in ("one", "one", "two\nlines \\n", " secret", "", "x" * 10_001, "one"):
        history.add(text)

    assert History(path).read() == ["one", "two\nlines \\n", "one"]
    assert History(path / "below").read() == []
    with pytest.raises(OSError, match="history"):
        History(path / "below").add("one")
    assert sys.platform == "win32" or stat.S_IMODE(path.stat().st_mode) == 0o600


def test_two_chats_keep_the_messages_of_both(tmp_path):
    """The file is cut when a chat starts, and only appended to later."""
    path = tmp_path / "history"
    path.write_text("".join(f"{number}\n" for number in range(1_200)))
    first, second = History(path), History(path)
    assert first.read() == second.read() == [str(number) for number in range(200, 1_200)]
    for number in range(3):
        first.add(f"A{number}")
        second.add(f"B{number}")

    assert path.read_text().splitlines()[-6:] == ["A0", "B0", "A1", "B1", "A2", "B2"]
    assert len(History(path).read()) == 1_000
    assert path.read_text().count("\n") == 1_000


@given(text=st.text(min_size=1, max_size=20))
def test_the_history_returns_what_was_added(text, tmp_path_factory):
    path = tmp_path_factory.mktemp("home") / "history"
    History(path).add(text)
    stored = bool(text.strip()) and not text.startswith(" ")

    assert History(path).read() == [text.encode("utf-8", "replace").decode()] * stored


@pytest.mark.parametrize(
    "line, expected",
    [
        ("/mo", ["/model "]),
        ("/u", ["/undo ", "/usage"]),
        ("", []),
        ("//mo", []),
        ("hello", []),
        ("/model nobody/", []),
        ("/tools shell read", ["/tools shell read_file"]),
        ("/attach ", ["/attach my notes/"]),
        ("/attach my n", ["/attach my notes/"]),
        ("/attach my notes/one t", ["/attach my notes/one two.txt"]),
        ("/attach .h", ["/attach .hidden"]),
        ("/attach nowhere/x", []),
        ("/name x", []),
    ],
)
def test_completion(tmp_path, monkeypatch, line, expected):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my notes").mkdir()
    (tmp_path / "my notes" / "one two.txt").touch()
    (tmp_path / ".hidden").touch()
    start, texts = complete_input(line)

    assert sorted(line[:start] + text for text in texts) == expected
    assert len(list(complete_input("/")[1])) == len(SLASH_COMMANDS)
    assert "sim/anthropic" in list(complete_input("/model sim/anth")[1])
