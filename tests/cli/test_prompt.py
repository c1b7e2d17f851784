"""What is typed, before anybody hears of it: lines, commands, and what is remembered of them."""

from __future__ import annotations

import stat
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenuto.cli.session.slash_commands import SLASH_COMMANDS, SlashInput, TypedMessage, complete_input, parse_input
from tenuto.cli.terminal.prompt import History, MessageBuilder, PromptInput, read_message

FENCE = '"""'
TEXT = st.text(st.sampled_from('/\\ \n"abc\t\x1b\u00e9'), max_size=12)


class Terminal:
    """Lines, some of which come at once, as they do if they are pasted."""

    live = offers = True

    def __init__(self, *lines, waiting=()):
        self._lines = list(lines)
        self._waiting = list(waiting)
        self.prompts = []

    def line(self, prompt, offered=""):
        self.prompts.append(prompt)
        if not self._lines:
            raise EOFError
        return self._lines.pop(0)

    def waiting(self, seconds):
        return self._waiting.pop(0) if self._waiting else False

    def keep(self, said):
        """Not here."""


# --- words or a command -----------------------------------------------------------------------------------------------


@given(TEXT, st.booleans())
def test_whatever_is_typed_is_words_or_a_command(text, literal):
    what = parse_input(PromptInput(text, literal))

    if isinstance(what, SlashInput):
        assert text.startswith("/")
        assert not literal
        assert "\n" not in text
        assert text.lower().startswith(f"/{what.name}")
        assert what.rest == what.rest.strip()
        assert what.rest in text
    else:
        assert what.text in (text, text[1:])
        assert (what.text == text) == (literal or "\n" in text or not text.startswith("//"))


@pytest.mark.parametrize(
    "text, expected",
    [
        ("/model sim/openai:high ", SlashInput("model", "sim/openai:high")),
        ("/UNDO\t2", SlashInput("undo", "2")),
        ("/", SlashInput("")),
        ("/ model", SlashInput("", "model")),
        ("/usr/bin is a folder", SlashInput("usr/bin", "is a folder")),
        ("//usr/bin is a folder", TypedMessage("/usr/bin is a folder")),
        (" /model", TypedMessage(" /model")),
        ("/usr/bin\nis a folder", TypedMessage("/usr/bin\nis a folder")),
        ("", TypedMessage("")),
    ],
)
def test_what_begins_with_a_slash_is_a_command(text, expected):
    assert expected == parse_input(PromptInput(text))
    assert TypedMessage(text) == parse_input(PromptInput(text, literal=True))


# --- messages of lines ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "lines, expected",
    [
        (["one"], PromptInput("one")),
        (["one\\", "two\\", "three"], PromptInput("one\ntwo\nthree")),
        (["two \\\\"], PromptInput("two \\\\")),
        (["three \\\\\\", "on"], PromptInput("three \\\\\non")),
        ([FENCE, "/one", "two\\", "", FENCE], PromptInput("/one\ntwo\\\n", literal=True)),
        ([f" {FENCE} ", FENCE], PromptInput("", literal=True)),
        ([f"{FENCE}\none\ntwo\n{FENCE}"], PromptInput("one\ntwo", literal=True)),
        ([f"{FENCE}\none", f"two\n{FENCE}"], PromptInput("one\ntwo", literal=True)),
        (["one\ntwo\n"], PromptInput("one\ntwo\n")),
        (["one\\"], PromptInput("one")),
        ([FENCE, "one"], PromptInput("one", literal=True)),
    ],
)
def test_a_message_may_have_several_lines(lines, expected):
    """What was begun and not ended is said as far as it came."""
    terminal = Terminal(*lines)

    assert expected == read_message(terminal)
    assert ["you> ", "...> "][: len(terminal.prompts)] == terminal.prompts[:2]
    with pytest.raises(EOFError):
        read_message(terminal)


@given(st.lists(TEXT))
def test_lines_are_put_together_and_none_is_lost(lines):
    """In a block every line stands as it was typed, but for one that ends it."""
    taken = MessageBuilder()
    assert taken.take(FENCE) is None
    inner = [line for line in lines if line.rpartition("\n")[2].strip() != FENCE]
    assert [None] * len(inner) == [taken.take(line) for line in inner]

    assert PromptInput("\n".join(inner), literal=True) == taken.take(FENCE)
    assert taken.end() is None


def test_what_is_pasted_line_by_line_is_one_message():
    """What was typed ahead, before there was a prompt, is not; and a command is obeyed by itself."""
    pasted = Terminal("def f():\\", "", "    /return", "next", waiting=[False, True, True, False])
    ahead = Terminal("one", "two", waiting=[True, True])
    command = Terminal("/usage", "one", waiting=[False, True])

    assert PromptInput("def f():\\\n\n    /return") == read_message(pasted)
    assert PromptInput("one") == read_message(ahead)
    assert PromptInput("/usage") == read_message(command)


# --- what is remembered -----------------------------------------------------------------------------------------------


def test_what_was_typed_is_remembered_in_a_file_of_ones_own(tmp_path):
    """Not what begins with a space, not twice in a row, and not a whole book."""
    history = History(tmp_path / "new" / "history")
    for said in ("one", "one", "two\nlines \\n", " secret", "", "x" * 10_001, "one"):
        history.add(said)

    assert ["one", "two\nlines \\n", "one"] == History(tmp_path / "new" / "history").read()
    if sys.platform != "win32":
        assert 0o600 == stat.S_IMODE((tmp_path / "new" / "history").stat().st_mode)


def test_the_last_thousand_are_remembered(tmp_path):
    path = tmp_path / "history"
    path.write_text("".join(f"{number}\n" for number in range(1_200)))
    history = History(path)
    read = history.read()
    history.add("last")

    assert [str(number) for number in range(200, 1_200)] == read
    assert [*read[1:], "last"] == History(path).read()
    assert 1_000 == path.read_text().count("\n")
    assert ["history"] == [one.name for one in tmp_path.iterdir()]


@given(said=st.text(min_size=1, max_size=20))
def test_whatever_was_typed_is_remembered_as_it_was(said, tmp_path_factory):
    path = tmp_path_factory.mktemp("home") / "history"
    kept = History(path).add(said)

    assert ([said] if kept else []) == History(path).read()


def test_what_cannot_be_written_is_an_error_and_no_end(tmp_path):
    (tmp_path / "file").touch()
    history = History(tmp_path / "file" / "history")

    assert [] == history.read()
    with pytest.raises(OSError, match="file"):
        history.add("one")


# --- completion -------------------------------------------------------------------------------------------------------


def test_commands_models_tools_and_files_are_completed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my notes").mkdir()
    (tmp_path / "my notes" / "one two.txt").touch()
    (tmp_path / ".hidden").touch()

    def at_end(line):
        return complete_input(line, line.rfind(" ") + 1)

    assert ["/model "] == at_end("/mo")
    assert ["/usage", "/undo "] == sorted(at_end("/u"), reverse=True)
    assert len(SLASH_COMMANDS) == len(at_end("/"))
    assert [] == at_end("//mo")
    assert "sim/anthropic" in at_end("/model sim/anth")
    assert [] == at_end("/model nobody/")
    assert ["read_file"] == at_end("/tools shell read")
    assert ["my notes/"] == at_end("/attach ")
    assert ["notes/"] == at_end("/attach my n")
    assert ["two.txt"] == at_end("/attach my notes/one t")
    assert [".hidden"] == at_end("/attach .h")
    assert [] == at_end("/attach nowhere/x")
    assert [] == at_end("/name x")
