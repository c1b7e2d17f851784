"""A chat in this process, with messages that are typed in advance."""

from __future__ import annotations

import asyncio
import json
import re
from typing import NamedTuple

import pytest

from cli.conftest import stored_sessions, user_messages
from tenuto import settings
from tenuto.cli.options import RunOptions
from tenuto.cli.session.chat import Chat
from tenuto.cli.terminal.display import Display
from tenuto.cli.terminal.input import NotUtf8, PromptInterrupted
from tenuto.cli.terminal.output import detect_terminal
from tenuto.core.journal import Configured, HandedOver, MessageAdded
from tenuto.store.open import open_store
from tenuto.testing import call, deny, fail, say, stop, think, turn

PNG = bytes.fromhex("89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c489")
LOST = "not sent: 1 reasoning block"


class Done(NamedTuple):
    code: int
    out: str
    err: str
    offered: list


class Typist:
    """Returns messages one by one; an error among them is raised, and a function is called."""

    def __init__(self, lines, *, live, can_edit):
        self.is_interactive, self.can_edit = live, can_edit
        self.offered = []
        self._lines = list(lines)

    async def read(self, offered=""):
        if offered:
            self.offered.append(offered)
        while self._lines:
            line = self._lines.pop(0)
            if isinstance(line, Exception):
                raise line
            if isinstance(line, str):
                return line
            await line()
        raise EOFError


class FullDisk:
    """A history that cannot be written."""

    def add(self, text):
        raise OSError(28, "No space left on device")


@pytest.fixture
def chat(here, tools, capfd):
    """Run a chat in this process; its sessions are in a memory that ends with the test."""

    def run(*lines, live=True, can_edit=True, history=None, **options):
        typist = Typist(lines, live=live, can_edit=can_edit)
        capfd.readouterr()
        options = RunOptions(**{"model": "sim/anthropic", **options})
        code = asyncio.run(Chat(options, typist, Display(detect_terminal("never")), history).execute())
        return Done(code, *capfd.readouterr(), typist.offered)

    return run


# --- turns ------------------------------------------------------------------------------------------------------------


def test_messages_of_one_chat_are_one_session(chat, tenuto_sim):
    tenuto_sim.script(turn(think("Hm."), say("Four.")), turn("Eight."))
    done = chat("What is 2 + 2?", "", "   ", "Twice that?")
    [(one, entries)] = stored_sessions()

    assert done[:2] == (0, "Four.\nEight.\n")
    assert user_messages(entries) == ["What is 2 + 2?", "Twice that?"]
    assert done.err.startswith("sim/anthropic. /help for commands, Ctrl-D to quit\nHm.\n")
    assert done.err.endswith(f"\nresume with: tenuto chat {one.id[:12]}\n")
    tenuto_sim.assert_clean()


def test_an_empty_line_retries_after_an_error(chat, tenuto_sim):
    tenuto_sim.script(turn(fail(401), say("There.")))
    done = chat("Hi", "", "/retry")

    assert done[:2] == (0, "There.\n")
    for text in ("error: ", "turn interrupted: press Enter or /retry to continue\n", "! nothing to do\n"):
        assert text in done.err
    assert user_messages(stored_sessions()[0][1]) == ["Hi"]


def test_resuming_finishes_pending_work_and_shows_the_last_exchange(chat, tenuto_sim):
    tenuto_sim.script(turn(say("One\n" * 20)), turn(fail(401), say("Two.")), turn("Three."))
    chat("Hi")
    shown = chat(session="last")
    chat("And then?", session="last")
    done = chat("More?", session="last")
    again = chat(session="last")

    assert f"you> Hi\n{'One' + chr(10)}" in shown.err
    assert f"{'One' + chr(10)}(12 more lines: /show prints them)\nsim/" in shown.err
    assert done.out == "Two.\nThree.\n"
    assert "you> And then?\nsim/anthropic. " in done.err
    assert "continuing the interrupted turn\n" in done.err
    assert "6 messages\nyou> More?\nThree.\nsim/anthropic. /help" in again.err
    assert len(stored_sessions()) == 1


@pytest.mark.parametrize("word", ["/exit", "/quit", "/q", "/bye", "exit", " QUIT "])
def test_leave_words_end_the_chat(chat, word):
    assert chat(word, "not sent")[:2] == (0, "")
    assert stored_sessions() == []


@pytest.mark.parametrize(
    "lines, code",
    [
        ([PromptInterrupted(empty=False), PromptInterrupted(empty=False)], 0),
        ([PromptInterrupted(empty=True), "/help", PromptInterrupted(empty=True)], 0),
        ([PromptInterrupted(empty=False), PromptInterrupted(empty=True), "/help"], 130),
        ([PromptInterrupted(empty=True), PromptInterrupted(empty=True), "/help"], 130),
    ],
)
def test_the_second_ctrl_c_at_an_empty_prompt_quits(chat, lines, code):
    done = chat(*lines)

    assert done.code == code
    assert ("press Ctrl-C again or Ctrl-D to quit\n" in done.err) == lines[0].empty


def test_invalid_utf8_is_not_sent(chat):
    done = chat(NotUtf8(), "/exit")

    assert (done.code, "! not sent: invalid UTF-8\n" in done.err) == (0, True)


def test_a_history_that_cannot_be_written_is_reported_once(chat, tenuto_sim):
    tenuto_sim.script(turn("One.", stop()), turn("Two."))
    done = chat("Hi", "Ho", history=FullDisk())

    assert done.out == "One.\nTwo.\n"
    assert done.err.count("cannot save history: No space left on device\n") == 1
    assert "answer truncated" in done.err


def test_a_pipe_exits_with_the_code_of_the_last_failed_turn(chat, tenuto_sim):
    tenuto_sim.script(turn("One."), turn(deny(401)), turn("Two."), turn("Three."))
    failed = chat("Hi", "Again", "", live=False)
    done = chat("Bye", "/nonsense", live=False, session="last")

    assert failed[:2] == (3, "One.\n")
    assert done[:2] == (2, "Two.\nThree.\n")
    assert chat("/usage", live=False, session="last")[:2] == (0, "")
    assert "Ctrl-D" not in done.err
    assert "press Enter" not in failed.err


def test_an_ephemeral_chat_stores_nothing(here, tenuto_sim):
    """Its session survives being reopened with a tool."""
    tenuto_sim.script(turn("One."), turn("Two."))
    done = here("chat", "--ephemeral", stdin="Hi\n/tools read_file\nHo\n")

    assert done[:2] == (0, "One.\nTwo.\n")
    assert "enabled: read_file" in done.err
    assert "resume with" not in done.err
    assert stored_sessions() == []
    tenuto_sim.assert_clean()


def test_a_missing_key_is_reported_once(here, unset):
    done = here("chat", stdin="/tools read_file\n/tools shell\n")

    assert (0, 1) == (done.code, done.err.count("no API key: using the simulator"))
    assert "enabled: read_file, shell\n" in done.err


def test_a_message_that_could_not_be_stored_is_offered_again(chat, tenuto_sim, tmp_path):
    """Another process has the session; the attachment is kept too."""
    (tmp_path / "photo.png").write_bytes(PNG)
    tenuto_sim.script(turn("One."), turn("Two."))
    chat("Hi")
    [(one, _)] = stored_sessions()
    others = open_store(settings.store())
    done = chat(
        "/attach photo.png", lambda: others.lease(one.id), "Mine?", others.close, "Mine!", session="last"
    )  # fmt: skip
    parts = [
        entry.payload.message.parts for entry in stored_sessions()[0][1] if isinstance(entry.payload, MessageAdded)
    ]

    assert done.out == "Two.\n"
    assert "error: session 01" in done.err
    assert done.offered == ["Mine?"]
    assert [part.text for part, *_ in parts] == ["Hi", "Mine!"]
    assert [len(one) for one in parts] == [1, 2]


@pytest.mark.parametrize("live, number, code", [(True, 2, 0), (False, 2, 130), (True, 15, 143), (False, 15, 143)])
def test_a_signal_stops_the_turn(chat, tenuto_sim, live, number, code):
    """Only Ctrl-C on a terminal does not end the chat."""
    tenuto_sim.script(turn(call("ring", {"number": number})), turn("Well."))
    done = chat("Go!", "Stop.", tool=("tools:ring",), live=live)
    again = chat(session="last", tool=("tools:ring",))

    assert done[:2] == (code, "" if code else "Well.\n")
    assert "stopped; session saved\n" in done.err
    assert "\nresume with: tenuto chat 01" in done.err
    assert bool(code) == ("turn interrupted (cancelled): press Enter or /retry" in again.err)
    tenuto_sim.assert_clean()


# --- commands ---------------------------------------------------------------------------------------------------------


def test_an_unknown_command_suggests_one(chat, tenuto_sim):
    tenuto_sim.script(turn("Yes."))
    done = chat("/modle", "/", "/ls /tmp", "//help", "/HELP")

    assert "! unknown command /modle: did you mean /model? (start with // to send a literal /)" in done.err
    assert "! unknown command /: use /help" in done.err
    assert "  /undo [N]          " in done.err
    assert user_messages(stored_sessions()[0][1]) == ["/help"]


def test_switching_the_model_reports_losses_in_one_line(chat, tenuto_sim):
    """Once, if the session is opened with another model and if the chat switches."""
    tenuto_sim.script(turn(think("Hm."), say("One.")), turn("Two."), turn("Three."))
    chat("Hi")
    opened = chat("And?", session="last", model="sim/openai")
    done = chat(
        "/model", "/model sim/anthropic", "Back?", "/model sim/openai", "/model grok", session="last", model=None
    )
    [(_, entries)] = stored_sessions()

    assert opened.out + done.out == "Two.\nThree.\n"
    assert re.match(rf"switched to sim/openai\n{LOST}.*; restored if you switch back\nsession 01", opened.err)
    assert opened.err.count(LOST) == 1
    assert re.search(rf"model: sim/openai\n(.*\n)*switched to sim/openai\n{LOST}", done.err)
    assert done.err.count(LOST) == 1
    assert "! 'grok' is not a model name: use provider/model, such as xai/" in done.err
    switches = [one.payload.model for one in entries if isinstance(one.payload, HandedOver)]
    assert switches == ["sim/openai", "sim/anthropic", "sim/openai"]
    tenuto_sim.assert_clean()


def test_effort_can_change_and_other_parameters_stay(chat, tenuto_sim):
    tenuto_sim.script(turn("One."), turn("Two."), turn("Three."))
    done = chat(
        *("/model sim/openai:low", "Hi", "/model sim/openai:high", "/model", "And?", "/model sim/anthropic", "So?"),
        option=("temperature=0.10",),
    )
    [(_, entries)] = stored_sessions()
    stored = [json.loads(one.payload.parameters) for one in entries if isinstance(one.payload, Configured)]

    for text in ("switched to sim/openai, effort low", "model: sim/openai, effort high", "sim/anthropic, effort high"):
        assert f"{text}\n" in done.err
    same = {"temperature": 0.1, "cache": "auto"}
    assert stored == [{**same, "effort": "low"}, {**same, "effort": "high"}]
    tenuto_sim.assert_clean()


def test_undo_continues_in_a_fork_and_offers_the_text(chat, tenuto_sim):
    tenuto_sim.script(turn("One."), turn("Two."), when="first")
    tenuto_sim.script(turn("One."), turn("Other."), when="other")
    chat("first", "second")
    [(one, before)] = stored_sessions()
    done = chat("/undo", "second, otherwise", session="last")
    [(branch, entries), (kept, after)] = stored_sessions()

    assert f"1 exchange undone (now in {branch.id[:12]}; original kept as {one.id[:12]})" in done.err
    assert done.offered == ["second"]
    assert (kept.id, after) == (one.id, before)
    assert branch.parent == one.id
    assert user_messages(entries) == ["first", "second, otherwise"]
    assert done.err.endswith(f"resume with: tenuto chat {branch.id[:12]}\n")
    tenuto_sim.assert_clean()


def test_compact_and_undo_in_a_chat(chat, tenuto_sim):
    done = chat(
        "/compact", "Hi", "Ho", "Ha", "/compact the greeting", "/compact undo", "/compact undo", model="sim/openai"
    )
    [(_, entries)] = stored_sessions()

    assert "! no messages yet\n" in done.err
    assert "compacted: " in done.err
    assert "the whole conversation is sent again" in done.err
    assert "the session is not compacted" in done.err
    assert user_messages(entries) == ["Hi", "Ho", "Ha"]
    assert [entry.kind for entry in entries if entry.kind == "compacted"] == ["compacted", "compacted"]
    tenuto_sim.assert_clean()


def test_undo_takes_no_more_than_there_is(chat, tenuto_sim):
    """The model stays; a reader that cannot edit prints the text."""
    commands = (
        "/undo",
        "Hi",
        "Ho",
        "/undo 3",
        "/undo 0",
        "/model sim/openai",
        "/undo 2",
        "/model",
        "/undo",
        "/show",
        "Ha",
    )
    done = chat(*commands, can_edit=False)
    [(_, entries), (_, before)] = stored_sessions()

    for text in ("! nothing to undo\n", "! only 2 exchanges to undo\n", "2 exchanges undone", "\nnot sent: Hi\n"):
        assert text in done.err
    assert "! /undo takes a number, 1 or more, not '0'\n" in done.err
    assert done.err.count("model: sim/openai\n") == 1
    assert (user_messages(entries), user_messages(before)) == (["Ha"], ["Hi", "Ho"])
    tenuto_sim.assert_clean()


def test_forks_leave_the_original_unchanged(chat, tenuto_sim):
    chat("One", "Two")
    [(one, before)] = stored_sessions()
    done = chat("/fork", "Three", "/fork 2", "Four", "/fork 77", "/fork x", session="last")
    [(second, there), (first, entries), (kept, after)] = stored_sessions()

    assert f"forked (now in {first.id[:12]}; {one.id[:12]} unchanged)\n" in done.err
    assert f"forked (now in {second.id[:12]}; {first.id[:12]} unchanged)\n" in done.err
    assert (kept.id, after) == (one.id, before)
    assert (user_messages(entries), user_messages(there)) == (["One", "Two", "Three"], ["One", "Four"])
    assert "! cannot fork after message 77: choose 1 to 4\n" in done.err
    assert "! /fork takes a number, 1 or more, not 'x'\n" in done.err
    tenuto_sim.assert_clean()


def test_tools_are_enabled_in_the_same_session(chat, tenuto_sim):
    """An unknown tool, or two of one name, change nothing; output of a tool is not the answer."""
    tenuto_sim.script(turn("Hi."), turn(call("dig", {"depth": 3})), turn("Deep."))
    done = chat(
        *("/tools", "Hi", "/tools raed_file", "/tools tools:dig read_file", "/tools tools:again", "Dig!", "/tools"),
    )

    assert "enabled: none\navailable: read_file, write_file, " in done.err
    assert "! unknown tool 'raed_file': did you mean read_file" in done.err
    assert done.err.count("enabled: dig, read_file\navailable: write_file, ") == 2
    assert done.out == "Hi.\nDeep.\n"
    assert "< dig: 3 m deep" in done.err
    assert user_messages(stored_sessions()[0][1]) == ["Hi", "Dig!"]
    tenuto_sim.assert_clean()


def test_attachments_are_sent_with_the_next_message(chat, tenuto_sim, tmp_path):
    (tmp_path / "a photo.png").write_bytes(PNG)
    done = chat(
        *("/attach", "/attach missing.png", "/attach 'a photo.png'", "What is it?", "And?", "/undo 2", "/detach"),
        *("/attach a photo.png", "/attach a\\ photo.png", "Both?"),
    )
    [(_, entries), (_, before)] = stored_sessions()
    parts = [entry.payload.message.parts for entry in (*before, *entries) if isinstance(entry.payload, MessageAdded)]

    assert [len(one) for one in parts] == [2, 1, 3]
    for text in (
        "! no file: use /attach FILE or URL (0 attachments so far)",
        "missing.png",
        "attached 'a photo.png'",
        "1 attachment restored; /detach removes it",
        "1 attachment removed",
    ):
        assert text in done.err
    tenuto_sim.assert_clean()


def test_names(chat, tenuto_sim):
    """A name can be set before the first message; a name of another session is refused."""
    chat("/name first try", "Hi", "/name", session="")
    done = chat("/name first try", "Hi", "/name second", "/name first try", "/name last", name="mine")

    assert [one.name for one, _ in stored_sessions()] == ["second", "first try"]
    assert done.err.count("! another session is called 'first try': 01") == 2
    assert "! 'last' is not a name" in done.err
    assert chat("/exit", session="first try").code == 0


def test_usage_and_show(chat, tenuto_sim):
    tenuto_sim.script(turn(think("Hm."), say("One.")))
    done = chat("/show", "Hi", "/usage", "/show", hide_thinking=True, usage=True)

    assert "! no messages yet\n" in done.err
    assert "Hm." not in done.out + done.err
    assert "\n  Hi\n" in done.out
    assert done.err.count("sim/anthropic  ") == 2
    assert "session 01" in done.err


def test_calls_wait_without_a_terminal(chat, tenuto_sim):
    """A message instead of an answer denies them; allowed calls run."""
    tenuto_sim.script(
        turn(call("blast", {"where": "A"})), turn("Well."), turn(call("blast", {"where": "B"})), turn("Ok.")
    )
    waits = chat("Go!", "No, do not.", tool=("tools:blast",))
    runs = chat("Go!", session="last", tool=("tools:blast",), allow=("blast",))

    assert re.search(r"waiting for approval in .*:\n  blast: where: A\n", waits.err)
    assert waits.out == "Well.\n"
    assert "is gone" not in waits.err
    assert "< blast: B is gone" in runs.err
    tenuto_sim.assert_clean()
