"""Tables on a terminal: bold heads, colors of states, bold hits of a search; none of it elsewhere."""

from __future__ import annotations

import re

from tenuto.testing import call, turn

CODES = re.compile(r"\x1b\[[0-9;]*m")


def test_states_and_heads_have_colors_on_a_terminal(tenuto, tenuto_sim):
    tenuto_sim.script(turn(call("write_file", {"path": "a", "content": "b"})))
    tenuto.run("run", "Write something.", "-T", "write_file")
    listed, found, checked = [
        tenuto.terminal(*words) for words in (["sessions"], ["sessions", "search", "something"], ["doctor"])
    ]
    for terminal in (listed, found, checked):
        terminal.end()

    assert "\x1b[1mSTATUS            \x1b[0m" in listed.seen
    assert "\x1b[33mwaiting (approval)\x1b[0m" in listed.seen
    assert "Write \x1b[1msomething\x1b[0m." in found.seen
    assert "\x1b[32mok     \x1b[0m  tenuto: " in checked.seen


def test_tables_have_no_colors_without_a_terminal(tenuto):
    tenuto.run("run", "Hi", "-q")
    piped = tenuto.run("sessions").out
    tenuto.env["NO_COLOR"] = "1"
    plain = tenuto.terminal("sessions")
    plain.end()

    assert not CODES.search(piped)
    assert not CODES.search(plain.seen)
