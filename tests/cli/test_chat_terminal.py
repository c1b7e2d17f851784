"""A chat as a process of its own: in a terminal with somebody in front of it, and in a pipe."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tenuto.testing import call, stall, think, turn

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="there are no pseudo-terminals")
PLAIN = ("--color", "never")
READY = r"you> $"
PAGE = (Path(__file__).parents[2] / "docs" / "command" / "chat.md").read_text("utf-8")
PASTED = "\x1b[200~{}\x1b[201~"
TOOLS = '''
import asyncio, pathlib
from tenuto import tool

@tool(effect="pure")
async def look(at: str) -> str:
    """Look."""
    pathlib.Path("begun").write_text("yes")
    while not pathlib.Path("go").exists():
        await asyncio.sleep(0.01)
    return f"{at} is there"

@tool(approval=True)
def blast(where: str) -> str:
    """Blast."""
    return f"{where} is gone"
'''


def said(tenuto, *session):
    """What was said in a session."""
    page = tenuto.look("show", *session)
    return [text.strip() for text in re.findall(r"\nuser.*\n((?:  .*\n)*)", page)]


@pytest.fixture
def tools(tenuto):
    (tenuto.folder / "tools.py").write_text(TOOLS)
    os.mkfifo(tenuto.folder / "begun")


def test_a_conversation_is_as_its_page_shows_it(tenuto, tenuto_sim):
    """What stands on the page behind a prompt is typed, over what is offered there."""
    [shown] = re.findall(r"```text\n\$ tenuto (.*?)```", PAGE, re.DOTALL)
    call, *lines = shown.splitlines()
    running = tenuto.terminal(*call.split(), *PLAIN)
    for number, typed in enumerate(re.findall(r"(?m)^you> (.*)$", shown)):
        running.expect(rf"(?s)(?:you> .*){{{number}}}you> [^\r\n]*$")
        running.type(f"\x15{typed}\n")
    code, seen = running.end()
    pattern = "".join(r"(?:.*\n)*?" if line == "..." else _line(line) for line in lines)

    assert 0 == code
    assert re.fullmatch(pattern, seen), seen
    tenuto_sim.assert_clean()


def _line(line):
    return ".*".join(map(re.escape, line.split("..."))) + r"\n"


def test_lines_are_completed_remembered_pasted_and_offered_again(tenuto, tenuto_sim):
    """Tab, arrow up, a text of several lines, and what `/undo` takes back: all of it on one line to be edited."""
    tenuto_sim.script(turn("One."), turn("Two."), turn("Three."))
    (tenuto.folder / "home").mkdir()
    (tenuto.folder / "home" / "history").write_text("from the last\\ntime\n")
    running = tenuto.terminal("chat", *PLAIN)
    running.expect(READY)
    running.type("\x1b[A!\n")  # arrow up
    running.expect(r"One\.(.|\n)*you> $")
    running.type(PASTED.format("def f():\n\treturn '\x01'\n") + "\n")
    running.expect(r"Two\.(.|\n)*you> $")
    running.type("/und\t\n")
    running.expect(r"you> def f(.|\n)*return '\^A'\r\n\r$")
    running.type("# again\n")
    running.expect(r"# again(.|\n)*Two\.(.|\n)*you> $")
    big = threading.Thread(target=running.type, args=(PASTED.format("word " * 4_000) + "\n",))
    big.start()  # the terminal takes it in as it is read
    running.expect(r"Three\.(.|\n)*you> $")
    big.join()
    running.type("one \\\n")
    running.expect(r"\.\.\.> $")
    running.type("two")
    running.expect(r"\.\.\.> two$")
    running.type("\x03")
    running.expect(r"two(.|\n)*you> $")
    running.type("three")
    running.expect(r"you> three$")
    running.type("\x03")
    running.expect(r"three(.|\n)*you> $")
    running.type("\x03")
    code, _ = running.end()

    assert 130 == code
    assert "\x1b[?2004h" in running.seen  # the terminal is asked to say what is pasted
    assert ["from the last\n  time!", "def f():\n  \treturn '\\x01'\n  # again", ("word " * 4_000).strip()] == said(
        tenuto
    )
    assert ["from the last\n  time!", "def f():\n  \treturn '\\x01'"] == said(tenuto, "~1")
    assert [
        *("from the last\\ntime", "from the last\\ntime!", "def f():\\n\treturn '\x01'\\n", "/undo "),
        "def f():\\n\treturn '\x01'\\n# again",
    ] == (tenuto.folder / "home" / "history").read_text().splitlines()
    tenuto_sim.assert_clean()


def test_killed_in_mid_tool_it_goes_on_where_it_was(tenuto, tenuto_sim, tools):
    tenuto_sim.script(turn(call("look", {"at": "it"})), turn("Seen."))
    running = tenuto.terminal("chat", "-T", "tools:look", *PLAIN)
    running.expect(READY)
    running.type("Look!\n")
    (tenuto.folder / "begun").read_text()  # opens when the tool does
    running.process.kill()
    running.end()
    (tenuto.folder / "go").touch()
    again = tenuto.terminal("chat", "-c", "-T", "tools:look", *PLAIN)
    (tenuto.folder / "begun").read_text()
    again.expect(r"Seen\.(.|\n)*you> $")
    again.type("/exit\n")
    code, seen = again.end()

    assert 0 == code
    assert "you> Look!\n" in seen
    assert "the last turn has not ended: going on with it\n" in seen
    assert '> look at="it" (attempt 2)\n< look: it is there\n' in seen
    tenuto_sim.assert_clean()


def test_somebody_is_asked_and_what_is_typed_after_a_stopped_question_is_said(tenuto, tenuto_sim, tools):
    """Nobody who does not wait for an answer any more takes the next line away; who does not answer is asked again.

    The terminal cannot mark what is pasted: it is one message all the same.
    """
    tenuto.env["TERM"] = "dumb"
    tenuto_sim.script(
        turn(call("blast", {"where": "A"})), turn("Well."), turn(call("blast", {"where": "B"})), turn("Ok.")
    )
    running = tenuto.terminal("chat", "-T", "tools:blast", *PLAIN)
    running.expect(READY)
    running.type("Go!\n")
    running.expect("a reason: $")
    running.type("\x03")
    running.expect(r"session saved(.|\n)*you> $")
    running.type("No, wait.\nI mean it.\n")  # in one piece: it was pasted
    running.expect(r"Well\.(.|\n)*you> $")
    running.type("Now!\n")
    running.expect("where: B(.|\n)*a reason: $")
    running.type("\x04")
    running.expect(r"waits for approval: blast(.|\n)*you> $")
    running.type("\n")
    running.expect("waits for approval(.|\n)*where: B(.|\n)*a reason: $")
    running.type("y\n")
    running.expect(r"Ok\.(.|\n)*you> $")
    running.type("\x04")
    code, seen = running.end()

    assert 0 == code
    assert ["Go!", "No, wait.\n  I mean it.", "Now!"] == said(tenuto)
    assert "< blast: B is gone" in seen
    tenuto_sim.assert_clean()


def test_a_signal_or_a_closed_terminal_leaves_in_order(tenuto, tenuto_sim):
    tenuto_sim.script(turn("One."), when="Hi")
    tenuto_sim.script(turn(think("Hm."), stall()), when="Wait")
    ended, closed = tenuto.terminal("chat", *PLAIN), tenuto.terminal("chat", "--ephemeral", *PLAIN)
    ended.expect(READY)
    closed.expect(READY)
    ended.type("Hi\n")
    ended.expect(r"One\.(.|\n)*you> $")
    ended.process.send_signal(signal.SIGTERM)
    code, seen = ended.end()
    closed.type("Wait\n")
    closed.expect(r"Hm\.")
    os.close(closed._master)
    closed._master = os.open(os.devnull, os.O_RDONLY)

    assert 143 == code
    assert re.search(r"you>\nresume with: tenuto chat 01\w+\n$", seen)
    assert 129 == closed.process.wait(30)
    assert "Hi\n" == (tenuto.folder / "home" / "history").read_text()


def test_each_line_of_a_pipe_is_said_or_obeyed(tenuto, tenuto_sim):
    """The answers are on stdout, and nothing else; the terminal may be the one half of it only."""
    tenuto_sim.script(turn("One."), turn("Two."), turn("Three."))
    (tenuto.folder / "lines").write_bytes(b'\xef\xbb\xbfHi\r\n\n/name mine\n"""\n/two\n"""\n\xff\n')
    with (tenuto.folder / "lines").open("rb") as lines:
        done = tenuto.run("chat", stdin=lines)
    running = tenuto.terminal("chat", "mine", "-q", *PLAIN, stdout=subprocess.PIPE)
    running.expect(READY)
    running.type("Three?\n")
    running.expect(r"(?s)Three\?.*you> $")
    running.type("\x04")
    code, _ = running.end()

    assert (2, "One.\nTwo.\n") == done[:2]
    assert "! that is no text in UTF-8, and was not said\n" in done.err
    assert ["Hi", "/two", "Three?"] == said(tenuto)
    assert (0, b"Three.\n") == (code, running.process.stdout.read())
    assert ["Three?"] == (tenuto.folder / "home" / "history").read_text().splitlines()
    running.process.stdout.close()
    tenuto_sim.assert_clean()
