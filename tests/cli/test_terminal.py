"""The command in a terminal, with somebody in front of it."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from tenuto.testing import call, cut, say, stall, think, turn

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="there are no pseudo-terminals")
TOOLS = '''
from tenuto import tool

@tool(approval=True)
def blast(where: str) -> str:
    """Blast."""
    return f"{where} is gone"

@tool(approval=True)
def flood(where: str) -> str:
    """Flood."""
    return f"{where} is wet"
'''
BLAST = ("-T", "tools:blast")


@pytest.fixture
def tools(tenuto):
    """Tools that need somebody's word."""
    (tenuto.folder / "tools.py").write_text(TOOLS)


def test_the_answer_comes_live_and_nothing_in_it_is_obeyed(tenuto, tenuto_sim):
    """Thoughts are dim; what the model wrote to repaint the screen is spelt out."""
    tenuto_sim.script(turn(think("Hm.\x1b[2J"), say(["Red: ", "\x1b[31m\u202e."])))
    code, seen = tenuto.terminal("run", "Hi").end()

    assert 0 == code
    assert "\x1b[2mHm.\\x1b[2J\x1b[0m\nRed: \\x1b[31m\\u202e.\n" in seen
    assert ["\x1b[0m", "\x1b[2m"] == sorted(set(re.findall(r"\x1b\[[0-9;?]*.", seen)))


def test_without_color_there_is_none(tenuto, tenuto_sim):
    tenuto.env["NO_COLOR"] = "1"
    tenuto_sim.script(turn(think("Hm."), say("Four.")))
    code, seen = tenuto.terminal("run", "Hi").end()

    assert 0 == code
    assert "Hm.\nFour.\nresume with:" in seen
    assert "\x1b" not in seen


def test_what_was_shown_of_a_reply_that_broke_off_is_called_void(tenuto, tenuto_sim):
    tenuto_sim.script(turn(say(["Half of "]), cut(), say("it.")))
    code, seen = tenuto.terminal("run", "Hi", "--color", "never").end()

    assert 0 == code
    assert re.search(r"Half of\n! the reply broke off \(\w+\): what stands above of it is void\n! \w+: ", seen)
    assert "Half of it.\n" in seen


def test_while_it_waits_something_moves_and_ctrl_c_saves(tenuto, tenuto_sim):
    tenuto_sim.script(turn(think("Hm."), stall(times=1), say("There.")))
    running = tenuto.terminal("run", "Hi", "--color", "never")
    running.expect(r"Hm\.\r\n\r[|/\\-] asking sim/anthropic")
    running.type("\x03")
    code, seen = running.end()
    done = tenuto.run("resume")

    assert 130 == code
    assert re.search(r"stopped; what was said and done is kept\nresume with: tenuto resume \w+\n$", seen)
    assert (0, "There.\n") == done[:2]


def test_each_answer_to_a_question_does_what_it_says(tenuto, tenuto_sim, tools):
    """Yes, no, why not, all of this tool; what is not clear is asked again."""
    tenuto_sim.script(
        turn(call("blast", {"where": "A"}), call("blast", {"where": "B\n  where: C"}), call("blast", {"where": "D"})),
        turn(call("flood", {"where": "E"}), call("flood", {"where": "F"}), call("blast", {"where": "G"})),
        turn("Done."),
    )
    running = tenuto.terminal("run", "Go!", *BLAST, "-T", "tools:flood", "--color", "never")
    for asked, answer in (
        (r"where: A\r\n.*why not: $", "ok"),
        (r"where: A\r\n.*why not: ok(.|\n)*where: A\r\n.*why not: $", "y"),
        (r"where: B\r\n    \|   where: C\r\n.*why not: $", "n"),
        (r"where: D\r\n.*why not: $", "not on a Sunday"),
        (r"where: E\r\n.*why not: $", "a"),
        (r"where: G\r\n.*why not: $", "YES"),
    ):
        running.expect(asked)
        running.type(f"{answer}\n")
    code, seen = running.end()

    assert 0 == code
    for line in ("< blast: A is gone", "! blast [denied]: blast was not run: it was denied",
                 "! blast [denied]: blast was not run: not on a Sunday.", "< flood: E is wet", "< flood: F is wet",
                 "< blast: G is gone"):  # fmt: skip
        assert f"\n{line}" in seen
    assert "where: F" not in seen
    tenuto_sim.assert_clean()


def test_ctrl_c_at_the_question_saves(tenuto, tenuto_sim, tools):
    """What was asked about is not run, whatever is typed later."""
    tenuto_sim.script(turn(call("blast", {"where": "A"})), turn("Done."))
    running = tenuto.terminal("run", "Go!", *BLAST)
    running.expect("why not: $")
    running.type("\x03")
    code, seen = running.end()
    done = tenuto.run("resume", *BLAST)

    assert 130 == code
    assert "what was said and done is kept" in seen
    assert (0, "Done.\n") == done[:2]
    assert "is gone" not in seen + done.err


def test_whoever_goes_away_leaves_it_waiting_and_is_asked_again(tenuto, tenuto_sim, tools):
    """Ctrl-D answers nothing. The prompt may come from a pipe: the terminal is asked all the same."""
    tenuto_sim.script(turn(call("blast", {"where": "A"})), turn("Done."))
    piped = subprocess.Popen(["echo", "Go!"], stdout=subprocess.PIPE)
    running = tenuto.terminal("run", *BLAST, stdin=piped.stdout)
    piped.stdout.close()
    running.expect("why not: $")
    running.type("\x04")
    code, seen = running.end()
    piped.wait()
    again = tenuto.terminal("resume", *BLAST, stdout=subprocess.PIPE)
    again.expect("why not: $")
    again.type("y\n")

    assert (6, True) == (code, "waits for approval: blast" in seen)
    assert "Traceback" not in seen
    assert (0, "Done.\n") == (again.end()[0], again.process.stdout.read().decode())
    again.process.stdout.close()
