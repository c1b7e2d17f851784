"""`run` in a pseudo-terminal with --out and --schema."""

from __future__ import annotations

import sys

import pytest

from tenuto.testing import call, say, think, turn

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="there are no pseudo-terminals")


def test_out_writes_the_answer_to_the_file(tenuto, tenuto_sim):
    (tenuto.folder / "note.txt").write_text("the note")
    tenuto_sim.script(turn(say("I look."), call("read_file", {"path": "note.txt"})), turn(say("# The answer")))
    running = tenuto.terminal("run", "Read.", "-T", "read_file", "--out", "answer.md", "-n", "reading")
    code, text = running.end()
    seen = text.splitlines()

    assert (0, "# The answer\n") == (code, (tenuto.folder / "answer.md").read_text())
    assert ["I look.", '> read_file path="note.txt"', "< read_file: the note"] == seen[:3]
    assert seen[3] == ""
    assert seen[4].startswith("sim/anthropic  ")
    assert seen[5].startswith("resume with: tenuto resume 01")
    assert len(seen) == 6
    assert "reading" in tenuto.look("show", "reading")


def test_structured_output_is_printed_as_escaped_json(tenuto, tenuto_sim):
    (tenuto.folder / "schema.json").write_text('{"type": "array", "items": {"type": "string"}}')
    tenuto_sim.script(turn(think("Hm."), say('{"value": ["*a*", "_b_\\u001b[2J\u202e"]}')))
    code, text = tenuto.terminal("run", "Which?", "--schema", "schema.json", "--color", "never").end()
    seen = text.splitlines()

    assert 0 == code
    assert ["Hm.", '["*a*", "_b_\\u001b[2J\\u202e"]'] == seen[:2]
    assert seen[3].startswith("sim/anthropic  ")
