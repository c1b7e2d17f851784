"""A chat, with somebody who types beforehand: what is said, what is obeyed, and that nothing is lost."""

from __future__ import annotations

import asyncio
import json
import re
import sys
from typing import NamedTuple

import pytest

from tenuto import settings
from tenuto.cli.options import RunOptions
from tenuto.cli.session.chat import Chat
from tenuto.cli.terminal.display import Display
from tenuto.cli.terminal.output import detect_terminal
from tenuto.cli.terminal.prompt import NotUtf8, PromptInterrupted
from tenuto.core.journal import Configured, HandedOver, MessageAdded
from tenuto.store.open import open_store
from tenuto.testing import call, deny, fail, say, stop, think, turn

PNG = bytes.fromhex("89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c489")
TOOLS = '''
import asyncio, signal
from tenuto import tool

print("loaded")

@tool(effect="pure")
def look(at: str) -> str:
    """Look."""
    print("looking")
    return f"{at} is there"

again = look

@tool(approval=True)
def blast(where: str) -> str:
    """Blast."""
    return f"{where} is gone"

@tool
async def ring(number: int) -> str:
    """Have a signal come."""
    signal.raise_signal(number)
    await asyncio.sleep(60)
    return "nobody came"
'''


class Talked(NamedTuple):
    """What a chat came to."""

    code: int
    out: str
    err: str
    offered: list


class Typist:
    """Types lines that were thought of beforehand; an error among them is raised, and a function is called."""

    def __init__(self, lines, *, live, offers):
        self.live, self.offers = live, offers
        self.offered, self.kept = [], []
        self._lines = list(lines)

    def line(self, prompt, offered=""):
        if offered:
            self.offered.append(offered)
        while self._lines:
            line = self._lines.pop(0)
            if isinstance(line, Exception):
                raise line
            if isinstance(line, str):
                return line
            line()
        raise EOFError

    def waiting(self, seconds):
        return False

    def keep(self, said):
        self.kept.append(said)


@pytest.fixture
def chat(tenuto_sim, monkeypatch, capfd, tmp_path):
    """Have a chat in this process; its sessions are in a memory that ends with the test."""
    monkeypatch.setenv("TENUTO_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "tools.py").write_text(TOOLS)
    monkeypatch.delitem(sys.modules, "tools", raising=False)

    def talk(*lines, live=True, offers=True, **given):
        typist = Typist(lines, live=live, offers=offers)
        capfd.readouterr()
        options = RunOptions(**{"model": "sim/anthropic", **given})
        code = Chat(options, typist, Display(detect_terminal("never"))).execute()
        return Talked(code, *capfd.readouterr(), typist.offered)

    return talk


def stored(read):
    """Look into the store."""

    async def look():
        async with open_store(settings.store()) as store:
            return await read(store)

    return asyncio.run(look())


def sessions():
    """The sessions there are, the newest first, each with its entries."""

    async def read(store):
        page = await store.sessions()
        return [(one, await store.read(one.id)) for one in page.sessions]

    return stored(read)


def said_in(entries):
    return [str(entry.payload.message) for entry in entries if isinstance(entry.payload, MessageAdded)]


# --- talking ----------------------------------------------------------------------------------------------------------


def test_what_is_said_is_answered_in_one_session(chat, tenuto_sim):
    tenuto_sim.script(turn(think("Hm."), say("Four.")), turn("Eight."))
    done = chat("What is 2 + 2?", "", "   ", "Twice that?")
    [(one, entries)] = sessions()

    assert (0, "Four.\nEight.\n") == done[:2]
    assert ["What is 2 + 2?", "Twice that?"] == said_in(entries)
    assert done.err.startswith("sim/anthropic: /help lists commands, Ctrl-D leaves\nHm.\n")
    assert done.err.endswith(f"\nresume with: tenuto chat {one.id[:12]}\n")
    tenuto_sim.assert_clean()


def test_what_fails_is_told_and_an_empty_line_goes_on(chat, tenuto_sim):
    """The question is kept; it is not asked twice."""
    tenuto_sim.script(turn(fail(401), say("There.")))
    done = chat("Hi", "", "/retry")
    [(_, entries)] = sessions()

    assert (0, "There.\n") == done[:2]
    assert "error: " in done.err
    assert "the turn has not ended: an empty line, or /retry, goes on with it\n" in done.err
    assert "! nothing to do\n" in done.err
    assert ["Hi"] == said_in(entries)


def test_what_was_broken_off_is_done_first_and_the_last_exchange_is_shown(chat, tenuto_sim):
    tenuto_sim.script(turn(say("One\n" * 20)), turn(fail(401), say("Two.")), turn("Three."))
    chat("Hi", "And then?")
    done = chat("More?", session="last")
    again = chat(session="last")
    back = chat("/exit", "not heard", session="~0")

    assert "Two.\nThree.\n" == done.out
    assert "session 01" in done.err
    assert "you> And then?\nsim/anthropic: " in done.err
    assert "the last turn has not ended: going on with it\n" in done.err
    assert "4 messages" not in again.err
    assert "6 messages\nyou> More?\nThree.\nsim/anthropic: /help" in again.err
    assert (0, "") == back[:2]
    assert 1 == len(sessions())


def test_of_a_long_answer_only_the_beginning_is_shown_again(chat, tenuto_sim):
    tenuto_sim.script(turn(say("One\n" * 20)))
    chat("Hi")
    done = chat(session="last")

    shown = "One\n" * 8
    assert f"you> Hi\n{shown}(12 more lines: /show has them)\nsim/" in done.err


def test_ctrl_c_clears_and_the_second_at_an_empty_prompt_leaves(chat):
    kept = chat(
        PromptInterrupted(empty=False),
        PromptInterrupted(empty=False),
        "/help",
        PromptInterrupted(empty=True),
        "/help",
        PromptInterrupted(empty=True),
    )
    left = chat(PromptInterrupted(empty=False), PromptInterrupted(empty=True), "/help")

    assert 0 == kept.code == kept.err.count("resume with")
    assert "Ctrl-C once more, or Ctrl-D, leaves\n" in kept.err
    assert (130, False) == (left.code, "/undo" in left.err)


def test_what_is_no_text_is_not_said(chat):
    done = chat(NotUtf8(), "/exit")

    assert (0, True) == (done.code, "! that is no text in UTF-8, and was not said\n" in done.err)


def test_what_cannot_be_remembered_is_said_all_the_same(chat, tenuto_sim, monkeypatch):
    """That is told once."""
    tenuto_sim.script(turn("One.", stop()), turn("Two."))

    def full(self, said):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Typist, "keep", full)
    done = chat("Hi", "Ho")

    assert "One.\nTwo.\n" == done.out
    assert 1 == done.err.count("what is typed cannot be remembered: No space left on device\n")
    assert "the answer was cut off" in done.err


def test_a_pipe_ends_with_the_code_of_the_last_turn_that_failed(chat, tenuto_sim):
    """An empty line is nothing there; what is typed to a chat works in a pipe, too."""
    tenuto_sim.script(turn("One."), turn(deny(401)), turn("Two."), turn("Three."))
    failed = chat("Hi", "Again", "", live=False)
    done = chat("Bye", "/nonsense", live=False, session="last")
    fine = chat("/usage", live=False, session="last")

    assert (3, "One.\n") == failed[:2]
    assert (2, "Two.\nThree.\n") == done[:2]
    assert (0, "") == fine[:2]
    assert "Ctrl-D" not in done.err
    assert "an empty line" not in failed.err


def test_nothing_is_kept_of_an_ephemeral_chat(here, tenuto_sim):
    """Not even what is typed; and a tool can be switched on all the same."""
    tenuto_sim.script(turn("One."), turn("Two."))
    done = here("chat", "--ephemeral", stdin="Hi\n/tools read_file\nHo\n")

    assert (0, "One.\nTwo.\n") == done[:2]
    assert "enabled: read_file" in done.err
    assert "resume with" not in done.err
    assert [] == sessions()
    tenuto_sim.assert_clean()


def test_a_session_is_named_once(here):
    both = here("chat", "last", "-c", stdin="")
    gone = here("chat", "last", "--ephemeral", stdin="")
    none = here("chat", "last", stdin="")

    assert [2, 2, 7] == [both.code, gone.code, none.code]
    assert "error: use either -c or SESSION\n" in both.err


def test_what_could_not_be_written_is_there_to_be_said_again(chat, tenuto_sim, tmp_path):
    """Somebody else has the session: the words, and what goes along with them, are not lost."""
    (tmp_path / "photo.png").write_bytes(PNG)
    tenuto_sim.script(turn("One."), turn("Two."))
    chat("Hi")
    [(one, _)] = sessions()
    others = open_store(settings.store())
    done = chat(
        *("/attach photo.png", lambda: asyncio.run(others.lease(one.id)), "Mine?"),
        *(lambda: asyncio.run(others.close()), "Mine!"),
        session="last",
    )
    parts = [entry.payload.message.parts for entry in sessions()[0][1] if isinstance(entry.payload, MessageAdded)]

    assert "One.\nTwo.\n" == f"One.\n{done.out}"
    assert "error: session 01" in done.err
    assert ["Mine?"] == done.offered
    assert ["Hi", "Mine!"] == [part.text for part, *_ in parts]
    assert [1, 2] == [len(one) for one in parts]


@pytest.mark.parametrize("live, number, code", [(True, 2, 0), (False, 2, 130), (True, 15, 143), (False, 15, 143)])
def test_a_signal_stops_the_turn_and_only_ctrl_c_at_a_terminal_does_not_leave(chat, tenuto_sim, live, number, code):
    tenuto_sim.script(turn(call("ring", {"number": number})), turn("Well."))
    done = chat("Go!", "Stop.", tool=("tools:ring",), live=live)
    again = chat(session="last", tool=("tools:ring",))

    assert (code, "" if code else "Well.\n") == done[:2]
    assert "stopped; session saved\n" in done.err
    assert "\nresume with: tenuto chat 01" in done.err
    assert bool(code) == ("the last turn has not ended (cancelled): an empty line, or /retry, goes on" in again.err)
    tenuto_sim.assert_clean()


# --- commands ---------------------------------------------------------------------------------------------------------


def test_a_command_that_is_none_suggests_one(chat, tenuto_sim):
    tenuto_sim.script(turn("Yes."))
    done = chat("/modle", "/", "/ls /tmp", "//help", "/HELP")

    assert "! unknown command /modle: did you mean /model? (start with // to send a literal /)" in done.err
    assert "! unknown command /: use /help" in done.err
    assert "  /undo [N]          " in done.err
    assert ["/help"] == said_in(sessions()[0][1])


def test_a_handover_tells_what_is_lost_and_back_again_all_is_in_place(chat, tenuto_sim):
    tenuto_sim.script(turn(think("Hm."), say("One.")), turn("Two."), turn("Three."))
    done = chat(
        "Hi", "/model sim/openai", "/model", "And?", "/model sim/anthropic", "Back?", "/model nobody/x", "/model gpt"
    )
    [(_, entries)] = sessions()

    assert "One.\nTwo.\nThree.\n" == done.out
    lost = re.search(r"switched to sim/openai\n((?:lost: .*\n)+)model: sim/openai\n", done.err)
    assert lost is not None
    assert [1] * len(lost[1].splitlines()) == [done.err.count(line) for line in lost[1].splitlines()]
    assert "switched to sim/anthropic\n" in done.err
    assert "nobody" in done.err
    assert "! 'gpt' is not a model name: use provider/model, such as openai/gpt-" in done.err
    assert ["sim/openai", "sim/anthropic"] == [
        one.payload.model for one in entries if isinstance(one.payload, HandedOver)
    ]
    tenuto_sim.assert_clean()


def test_a_session_can_be_handed_over_as_it_is_opened(chat, tenuto_sim):
    """What is lost is told once, and not again in the next chat."""
    tenuto_sim.script(turn(think("Hm."), say("One.")), turn("Two."), turn("Three."))
    chat("Hi")
    done = chat("And?", session="last", model="sim/openai")
    again = chat("And?", session="last", model=None)
    lost = re.search(r"^switched to sim/openai\n((?:lost: .*\n)+)session 01", done.err)

    assert lost is not None
    assert [1] * len(lost[1].splitlines()) == [done.err.count(line) for line in lost[1].splitlines()]
    assert "lost: " not in again.err
    assert "Two.\nThree.\n" == done.out + again.out
    tenuto_sim.assert_clean()


def test_how_much_the_model_thinks_can_be_changed(chat, tenuto_sim):
    """Before anything is said, and later; whatever else it is asked with stays."""
    tenuto_sim.script(turn("One."), turn("Two."), turn("Three."))
    done = chat(
        *("/model sim/openai:low", "Hi", "/model sim/openai:high", "/model", "And?", "/model sim/anthropic", "So?"),
        option=("temperature=0.10",),
    )
    [(_, entries)] = sessions()
    kept = [json.loads(one.payload.parameters) for one in entries if isinstance(one.payload, Configured)]

    assert "switched to sim/openai, effort low\n" in done.err
    assert "model: sim/openai, effort high\n" in done.err
    assert "switched to sim/anthropic, effort high\n" in done.err
    assert [{"temperature": 0.1, "effort": "low"}, {"temperature": 0.1, "effort": "high"}] == kept
    tenuto_sim.assert_clean()


def test_an_exchange_is_taken_back_and_the_original_stays(chat, tenuto_sim):
    """A fork without it; what was said is offered to be changed."""
    tenuto_sim.script(turn("One."), turn("Two."), when="first")
    tenuto_sim.script(turn("One."), turn("Other."), when="other")
    chat("first", "second")
    [(one, before)] = sessions()
    done = chat("/undo", "second, otherwise", session="last")
    [(branch, entries), (kept, after)] = sessions()

    assert f"1 exchange undone (now in {branch.id[:12]}; original kept as {one.id[:12]})" in done.err
    assert ["second"] == done.offered
    assert (one.id, before) == (kept.id, after)
    assert one.id == branch.parent
    assert ["first", "second, otherwise"] == said_in(entries)
    assert done.err.endswith(f"resume with: tenuto chat {branch.id[:12]}\n")
    tenuto_sim.assert_clean()


def test_compact_and_undo_in_a_chat(chat, tenuto_sim):
    done = chat(
        "/compact", "Hi", "Ho", "Ha", "/compact the greeting", "/compact undo", "/compact undo", model="sim/openai"
    )
    [(_, entries)] = sessions()

    assert "! no messages yet\n" in done.err
    assert "compacted: " in done.err
    assert "the whole conversation is sent again" in done.err
    assert "the session is not compacted" in done.err
    assert ["Hi", "Ho", "Ha"] == said_in(entries)
    assert ["compacted", "compacted"] == [entry.kind for entry in entries if entry.kind == "compacted"]
    tenuto_sim.assert_clean()


def test_everything_can_be_taken_back_but_not_more(chat, tenuto_sim):
    """Also what was attached is back on the table; where a line cannot be offered, it is shown."""
    done = chat("/undo", "Hi", "Ho", "/undo 3", "/undo 0", "/undo 2", "/undo", "/show", "Ha", offers=False)
    [(_, entries), (_, before)] = sessions()

    assert "! nothing to undo\n" in done.err
    assert "! only 2 exchanges to undo\n" in done.err
    assert "! /undo takes a number, 1 or more, not '0'\n" in done.err
    assert "2 exchanges undone" in done.err
    assert "\nunsaid: Hi\n" in done.err
    assert (["Ha"], ["Hi", "Ho"]) == (said_in(entries), said_in(before))
    tenuto_sim.assert_clean()


def test_taking_back_what_was_said_after_a_handover_tells_who_is_asked(chat, tenuto_sim):
    done = chat("Hi", "/model sim/openai", "Ho", "/undo 2")

    assert "model is sim/anthropic again\n" in done.err


def test_a_branch_goes_its_own_way(chat, tenuto_sim):
    chat("One", "Two")
    [(one, before)] = sessions()
    done = chat("/fork", "Three", "/fork 2", "Four", "/fork 77", "/fork x", session="last")
    [(second, there), (first, entries), (kept, after)] = sessions()

    assert f"forked (now in {first.id[:12]}; {one.id[:12]} unchanged)\n" in done.err
    assert f"forked (now in {second.id[:12]}; {first.id[:12]} unchanged)\n" in done.err
    assert (one.id, before) == (kept.id, after)
    assert ["One", "Two", "Three"] == said_in(entries)
    assert ["One", "Four"] == said_in(there)
    assert "! cannot fork after message 77: choose 1 to 4\n" in done.err
    assert "! /fork takes a number, 1 or more, not 'x'\n" in done.err
    tenuto_sim.assert_clean()


def test_tools_are_switched_on_in_the_same_session(chat, tenuto_sim):
    """One that is not there changes nothing; what a tool prints is no answer."""
    tenuto_sim.script(turn("Hi."), turn(call("look", {"at": "it"})), turn("Seen."))
    done = chat("/tools", "Hi", "/tools raed_file", "/tools tools:look read_file", "Look!", "/tools")
    [(_, entries)] = sessions()

    assert "enabled: none\navailable: read_file, write_file, " in done.err
    assert "! there is no tool 'raed_file': did you mean read_file" in done.err
    assert done.err.count("enabled: look, read_file\navailable: write_file, ") == 2
    assert "Hi.\nSeen.\n" == done.out
    assert "< look: it is there" in done.err
    assert ["Hi", "Look!"] == said_in(entries)
    tenuto_sim.assert_clean()


def test_a_session_that_cannot_be_opened_anew_is_open_as_before(chat, tenuto_sim):
    """Two tools of one name: that is found out when all is put together."""
    tenuto_sim.script(turn("Hi."), turn("Ho."))
    done = chat("Hi", "/tools tools:again", "Ho", "/tools", tool=("tools:look",))

    assert "Hi.\nHo.\n" == done.out
    assert "! " in done.err
    assert "enabled: look\n" in done.err
    tenuto_sim.assert_clean()


def test_what_is_attached_goes_along_once(chat, tenuto_sim, tmp_path):
    (tmp_path / "a photo.png").write_bytes(PNG)
    done = chat(
        *("/attach", "/attach missing.png", "/attach 'a photo.png'", "What is it?", "And?", "/undo 2", "/detach"),
        *("/attach a photo.png", "/attach a\\ photo.png", "Both?"),
    )
    [(_, entries), (_, before)] = sessions()
    parts = [entry.payload.message.parts for entry in (*before, *entries) if isinstance(entry.payload, MessageAdded)]

    assert [2, 1, 3] == [len(one) for one in parts]
    assert "! no file: use /attach FILE or URL (0 attachments so far)\n" in done.err
    assert "missing.png" in done.err
    assert "attached 'a photo.png'\n" in done.err
    assert "1 attachment restored; /detach removes it\n" in done.err
    assert "1 attachment removed\n" in done.err
    tenuto_sim.assert_clean()


def test_a_session_is_called_by_its_name(chat, tenuto_sim):
    """Before anything is said, and later; a name that another has is refused."""
    chat("/name first try", "Hi", "/name", session="")
    done = chat("/name first try", "Hi", "/name second", "/name first try", "/name last", name="mine")
    found = chat("/exit", session="first try")

    assert ["second", "first try"] == [one.name for one, _ in sessions()]
    assert 2 == done.err.count("! another session is called 'first try': 01")
    assert "! no session can be called 'last'" in done.err
    assert 0 == found.code


def test_what_was_used_and_said_can_be_seen(chat, tenuto_sim):
    tenuto_sim.script(turn(think("Hm."), say("One.")))
    done = chat("/show", "Hi", "/usage", "/show", hide_thinking=True, usage=True)

    assert "! no messages yet\n" in done.err
    assert "Hm." not in done.out + done.err
    assert "\n  Hi\n" in done.out
    assert 2 == done.err.count("sim/anthropic  ")
    assert "session 01" in done.err


def test_calls_wait_where_nobody_can_be_asked(chat, tenuto_sim):
    """What is said instead answers them; what is allowed beforehand is run."""
    tenuto_sim.script(
        turn(call("blast", {"where": "A"})), turn("Well."), turn(call("blast", {"where": "B"})), turn("Ok.")
    )
    waits = chat("Go!", "No, do not.", tool=("tools:blast",))
    runs = chat("Go!", session="last", tool=("tools:blast",), allow=("blast",))

    assert 'waits for approval: blast where="A"\n' in waits.err
    assert "Well.\n" == waits.out
    assert "is gone" not in waits.err
    assert "< blast: B is gone" in runs.err
    tenuto_sim.assert_clean()
