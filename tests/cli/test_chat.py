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
from tenuto.cli.terminal.input import NotUtf8, PlainReader, PromptInterrupted
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


class Typist(PlainReader):
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
def chat(here, tools, tenuto_sim, capfd, tmp_path):
    """Run a chat in this process; its requests are correct."""
    (tmp_path / "a photo.png").write_bytes(PNG)

    def run(*lines, live=True, can_edit=True, history=None, **options):
        typist = Typist(lines, live=live, can_edit=can_edit)
        capfd.readouterr()
        options = RunOptions(**{"model": "sim/anthropic", **options})
        code = asyncio.run(Chat(options, typist, Display(detect_terminal("never")), history).execute())
        return Done(code, *capfd.readouterr(), typist.offered)

    yield run
    tenuto_sim.assert_clean()


def parts_of(entries):
    return [entry.payload.message.parts for entry in entries if isinstance(entry.payload, MessageAdded)]


def test_messages_of_one_chat_are_one_session(chat, tenuto_sim):
    """A history that cannot be written is reported once."""
    tenuto_sim.script(turn("Four.", stop()), turn("Eight."))
    done = chat("What is 2 + 2?", "", "   ", NotUtf8(), "Twice that?", history=FullDisk())
    [(one, entries)] = stored_sessions()

    assert done[:2] == (0, "Four.\nEight.\n")
    assert user_messages(entries) == ["What is 2 + 2?", "Twice that?"]
    assert done.err.startswith("sim/anthropic. /help for commands, Ctrl-D to quit\n")
    assert "answer truncated" in done.err
    assert "! not sent: invalid UTF-8\n" in done.err
    assert done.err.count("cannot save history: No space left on device\n") == 1
    assert done.err.endswith(f"\nresume with: tenuto chat {one.id[:12]}\n")


def test_an_empty_line_retries_after_an_error(chat, tenuto_sim):
    tenuto_sim.script(turn(fail(401), say("There.")))
    done = chat("Hi", "", "/retry")

    assert done[:2] == (0, "There.\n")
    for text in ("error: ", "turn interrupted: press Enter or /retry to continue\n", "! nothing to do\n"):
        assert text in done.err
    assert user_messages(stored_sessions()[0][1]) == ["Hi"]


def test_resuming_finishes_work_and_shows_the_last_exchange(chat, tenuto_sim):
    tenuto_sim.script(turn(say("One\n" * 20)), turn(fail(401), say("Two.")), turn("Three."))
    chat("Hi")
    shown = chat(session="last")
    chat("And then?", session="last")
    done = chat("More?", session="last")
    again = chat(session="last")

    assert "you> Hi\nOne\n" in shown.err
    assert "One\n(12 more lines: /show prints them)\nsim/" in shown.err
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
    "empty, code", [([False, False], 0), ([True, None, True], 0), ([False, True], 130), ([True, True], 130)]
)
def test_the_second_ctrl_c_at_an_empty_prompt_quits(chat, empty, code):
    """Unless a command is typed between them."""
    done = chat(*("/help" if one is None else PromptInterrupted(empty=one) for one in empty), "/help")

    assert done.code == code
    assert ("press Ctrl-C again or Ctrl-D to quit\n" in done.err) == empty[0]


def test_a_pipe_exits_with_the_code_of_the_last_failed_turn(chat, tenuto_sim):
    tenuto_sim.script(turn("One."), turn(deny(401)), turn("Two."), turn("Three."))
    failed = chat("Hi", "Again", "", live=False)
    done = chat("Bye", "/nonsense", live=False, session="last")

    assert failed[:2] == (3, "One.\n")
    assert done[:2] == (2, "Two.\nThree.\n")
    assert chat("/usage", live=False, session="last")[:2] == (0, "")
    assert "Ctrl-D" not in done.err
    assert "press Enter" not in failed.err


def test_an_ephemeral_chat_from_a_pipe_stores_nothing(here, tenuto_sim):
    """Each line is a message or a command; the session is kept when a tool is enabled."""
    tenuto_sim.script(turn("One."), turn("Two."))
    done = here("chat", "--ephemeral", stdin=b"\xef\xbb\xbfHi\r\n\n/tools read_file\n\xff\n//Ho")

    assert done[:2] == (2, "One.\nTwo.\n")
    assert "enabled: read_file" in done.err
    assert "! not sent: invalid UTF-8\n" in done.err
    assert "resume with" not in done.err
    assert stored_sessions() == []
    assert [False, True] == ["/Ho" in str(request.body) for request in tenuto_sim.requests]


def test_a_missing_key_is_reported_once(here, unset):
    done = here("chat", stdin="/tools read_file\n/tools shell\n")

    assert (0, 1) == (done.code, done.err.count("no API key: using the simulator"))
    assert "enabled: read_file, shell\n" in done.err


def test_a_message_that_could_not_be_stored_is_offered_again(chat, tenuto_sim):
    """Another process has the session; the attachment is kept too."""
    tenuto_sim.script(turn("One."), turn("Two."))
    chat("Hi")
    [(one, _)] = stored_sessions()
    others = open_store(settings.store())
    done = chat(
        "/attach a photo.png", lambda: others.lease(one.id), "Mine?", others.close, "Mine!", session="last"
    )  # fmt: skip
    parts = parts_of(stored_sessions()[0][1])

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


def test_calls_wait_without_a_terminal(chat, tenuto_sim):
    """A message instead of an answer denies the call; allowed calls run."""
    one, two = (call("blast", {"where": where}) for where in "AB")
    tenuto_sim.script(turn(one), turn("Well."), turn(two), turn("Ok."))
    waits = chat("Go!", "No, do not.", tool=("tools:blast",))
    runs = chat("Go!", session="last", tool=("tools:blast",), allow=("blast",))

    assert re.search(r"waiting for approval in .*:\n  blast: where: A\n", waits.err)
    assert waits.out == "Well.\n"
    assert "is gone" not in waits.err
    assert "< blast: B is gone" in runs.err


COMMANDS = [
    (
        ["/modle", "/", "/ls /tmp", "//help", "/HELP"],
        ["unknown command /modle: did you mean /model? (start with // to send a literal /)", "  /undo [N]          "],
        ["/help"],
    ),
    (
        ["/tools", "Hi", "/tools raed_file", "/tools tools:dig read_file", "/tools tools:again", "Dig!", "/tools"],
        [
            "enabled: none\navailable: read_file, ",
            "unknown tool 'raed_file': did you mean read_file",
            "enabled: dig, read",
        ],
        ["Hi", "Dig!"],  # two tools of one name are refused when the agent is made; the session stays open
    ),
    (
        ["/compact", "Hi", "Ho", "Ha", "/compact the greeting", "/compact undo", "/compact undo"],
        ["no messages yet\n", "compacted: ", "the whole conversation is sent again", "the session is not compacted"],
        ["Hi", "Ho", "Ha"],
    ),
    (
        ["/undo", "Hi", "Ho", "/undo 3", "/undo 0", "/model sim/chat", "/undo 2", "/model", "/undo", "/show", "Ha"],
        [
            "nothing to undo\n",
            "cannot undo 3: choose 1 to 2\n",
            "2 exchanges undone",
            "model: sim/chat\n",
            "not sent: Hi\n",
            "1 or more, not '0'\n",
        ],
        ["Ha"],
    ),
    (["/show", "Hi", "/usage"], ["no messages yet\n", "session 01", "sim/openai  "], ["Hi"]),
    (["/name first", "Hi", "/name last", "/name"], ["'last' is not a name"], ["Hi"]),
    (
        ["/fork 77", "One", "/fork x", "Two", "/fork 77"],
        ["cannot fork after message 77: choose 1 to 4\n", "/fork takes a number, 1 or more, not 'x'\n"],
        ["One", "Two"],
    ),
]


@pytest.mark.parametrize("lines, texts, sent", COMMANDS, ids=[lines[0] for lines, *_ in COMMANDS])
def test_chat_commands(chat, lines, texts, sent):
    done = chat(*lines, model="sim/openai", can_edit=False)

    assert [] == [text for text in texts if text not in done.err], done.err
    assert sent == user_messages(stored_sessions()[0][1])


def test_names_are_unique(chat):
    """A name can be set before the first message."""
    chat("/name first try", "Hi", session="")
    done = chat("/name first try", "Hi", "/name second", "/name first try", name="mine")

    assert [one.name for one, _ in stored_sessions()] == ["second", "first try"]
    assert done.err.count("! another session is called 'first try': 01") == 2
    assert chat("/exit", session="first try").code == 0


def test_output_of_tools_and_hidden_thinking_is_not_the_answer(chat, tenuto_sim):
    tenuto_sim.script(turn(think("Hm."), call("dig", {"depth": 3})), turn("Deep."))
    done = chat("Dig!", "/show", hide_thinking=True, usage=True, tool=("tools:dig",))

    assert done.out.startswith("Deep.\nsession 01")
    assert "< dig: 3 m deep" in done.err
    assert done.err.count("sim/anthropic  ") == 1
    assert "Hm." not in done.out + done.err


def test_switching_the_model_reports_losses_in_one_line(chat, tenuto_sim):
    """Once, if the session is opened with another model and if the chat switches."""
    tenuto_sim.script(turn(think("Hm."), say("One.")), turn("Two."), turn("Three."))
    chat("Hi")
    opened = chat("And?", session="last", model="sim/openai")
    done = chat(
        "/model",
        "/model sim/anthropic",
        "Back?",
        "/model sim/openai",
        "/model grok",
        "/model nobody/x",
        session="last",
        model=None,
    )
    [(_, entries)] = stored_sessions()

    assert opened.out + done.out == "Two.\nThree.\n"
    assert re.match(rf"switched to sim/openai\n{LOST}.*; restored if you switch back\nsession 01", opened.err)
    assert opened.err.count(LOST) == done.err.count(LOST) == 1
    assert re.search(rf"model: sim/openai\n(.*\n)*switched to sim/openai\n{LOST}", done.err)
    assert "! 'grok' is not a model name: use provider/model, such as xai/" in done.err
    assert "unknown provider 'nobody'" in done.err
    switches = [one.payload.model for one in entries if isinstance(one.payload, HandedOver)]
    assert switches == ["sim/openai", "sim/anthropic", "sim/openai"]


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


def test_undo_and_fork_leave_the_original_unchanged(chat):
    chat("One", "Two")
    [(one, before)] = stored_sessions()
    undone = chat("/undo", "Two, otherwise", session="last")
    [(branch, entries), (kept, after)] = stored_sessions()

    assert f"1 exchange undone (now in {branch.id[:12]}; original kept as {one.id[:12]})" in undone.err
    assert undone.offered == ["Two"]
    assert (kept.id, after, branch.parent) == (one.id, before, one.id)
    assert user_messages(entries) == ["One", "Two, otherwise"]
    assert undone.err.endswith(f"resume with: tenuto chat {branch.id[:12]}\n")
    forked = chat("/fork", "Three", "/fork 2", "Four", session=one.id)
    [(second, there), (first, here), *_] = stored_sessions()
    assert f"forked (now in {first.id[:12]}; {one.id[:12]} unchanged)\n" in forked.err
    assert f"forked (now in {second.id[:12]}; {first.id[:12]} unchanged)\n" in forked.err
    assert (user_messages(here), user_messages(there)) == (["One", "Two", "Three"], ["One", "Four"])
    assert before == stored_sessions()[-1][1]


def test_attachments_are_sent_with_the_next_message(chat):
    done = chat(
        *("/attach", "/attach missing.png", "/attach 'a photo.png'", "What is it?", "And?", "/undo 2", "/detach"),
        *("/attach a photo.png", "/attach a\\ photo.png", "Both?"),
    )
    [(_, entries), (_, before)] = stored_sessions()

    assert [2, 1, 3] == [len(parts) for parts in parts_of([*before, *entries])]
    for text in (
        *("! no file: use /attach FILE or URL (0 attachments so far)", "missing.png", "attached 'a photo.png'"),
        *("1 attachment restored; /detach removes it", "1 attachment removed"),
    ):
        assert text in done.err
