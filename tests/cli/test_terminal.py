"""The command in a pseudo-terminal."""

from __future__ import annotations

import re
import sys

import pytest

from tenuto.testing import call, say, stall, think, turn

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="there are no pseudo-terminals")
TOOLS = '''
from tenuto import tool

@tool
def dig(where: str) -> str:
    """Dig."""
    return f"{where}: wet" + "\\nfeet" * 5

@tool
def drill(where: str) -> str:
    """Drill."""
    return f"{where}: dry"
'''


@pytest.fixture
def tools(tenuto):
    (tenuto.folder / "tools.py").write_text(TOOLS)


CODES = re.compile(r"\x1b[^a-zA-Z]*.")
CALLS = ['> dig where="A\\x1b[2J"', '> drill where="B"', "< dig: A\\x1b[2J: wet", "    feet", "    feet", "    feet",
         "    (2 more lines)", "< drill: B: dry"]  # fmt: skip
ANSWER = """\
# Result

It is **wet**, as [they](http://x.y) said:

- `dig`: 日本語
- drill

| tool | depth |
|------|------:|
| dig | 3 |

```python
depth = 3
```
"""


def test_a_run_with_tools(tenuto, tenuto_sim, tools):
    long = "".join(f"Thought {number}.\n" for number in range(1, 31))
    tenuto_sim.script(
        turn(think(long), call("dig", {"where": "A\x1b[2J"}), call("drill", {"where": "B"})),
        turn(
            think("Hm.\x1b[2J"),
            say([ANSWER[at : at + 9] for at in range(0, len(ANSWER), 9)] + ["Red: \x1b[31m\u202e."]),
        ),
    )
    running = tenuto.terminal("run", "Hi", "-T", "tools:dig", "-T", "tools:drill", columns=60)
    code, seen = running.end()
    lines = seen.splitlines()

    assert 0 == code
    assert ["Thought 1.", "Thought 2.", "... 28 more lines (tenuto show has them)"] == lines[:3]
    assert sorted(CALLS) == sorted(lines[3:11])
    assert """\
Hm.\\x1b[2J
Result

It is wet, as they (http://x.y) said:

 • dig: 日本語
 • drill

 tool  depth
 ───────────
 dig       3

```python
depth = 3
```

Red: \\x1b[31m\\u202e.
""" == "".join(f"{line}\n" for line in lines[11:28])
    assert re.fullmatch(
        r"\nsim/anthropic  .* s\nresume with: tenuto resume \w+ -T tools:dig -T tool\ns:drill", "\n".join(lines[28:])
    )
    assert "\x1b[2;3m... 28 more" in running.seen
    assert "\x1b[36m> dig\x1b[0m where=" in running.seen
    assert {code for code in CODES.findall(running.seen) if not re.fullmatch(r"\x1b\[[0-9;]*m", code)} <= (
        {"\x1b[?7l", "\x1b[?7h", "\x1b[J"} | {f"\x1b[{count}A" for count in range(1, 40)}
    )


def test_no_color(tenuto, tenuto_sim):
    tenuto.env["NO_COLOR"] = "1"
    tenuto_sim.script(turn(think("Hm."), say(["*Fo", "ur*.\n\n- five"])))
    running = tenuto.terminal("run", "Hi")
    code, seen = running.end()

    assert 0 == code
    assert seen.startswith("Hm.\nFour.\n\n • five\n")
    assert [] == re.findall(r"\x1b\[[0-9;]*m", running.seen)


def test_resizing_while_the_answer_streams(tenuto, tenuto_sim):
    tenuto.env["XTERM_VERSION"] = "XTerm(390)"  # it cuts lines, as the terminal of the test does
    words = "Words that are so many that they do not have any room in a single row of this window."
    tenuto_sim.script(turn(say(["First.\n\n", words]), stall(times=1), say("There.")))
    running = tenuto.terminal("run", "Hi", "--color", "never", columns=100, rows=12)
    running.expect(r"window\.(.|\n)*is answering")
    before = running.display().visible
    running.resize(40, 12)
    running.expect(r"single row of this\r\nwindow\.\x1b|single row of this\r\nwindow\.\r\n")
    after = running.display().visible
    running.type("\x03")
    code, seen = running.end()

    assert ["First.", "", words] == before[:3]
    assert [
        "First.",
        "",
        "Words that are so many that they do not",
        "have any room in a single row of this",
        "window.",
    ] == (after[:5])
    assert 130 == code
    assert 1 == seen.count("Words that are so many")
    assert "is answering" not in seen


def test_spinner_and_ctrl_c(tenuto, tenuto_sim):
    tenuto_sim.script(turn(think("Hm."), stall(times=1), say("There.")))
    running = tenuto.terminal("run", "Hi", "--color", "never")
    running.expect(r"Hm\.\r\n(.|\n)*[|/\\-] asking sim/anthropic")
    running.type("\x03")
    code, seen = running.end()
    done = tenuto.run("resume")

    assert 130 == code
    assert re.search(r"stopped; session saved\nresume with: tenuto resume \w+\n$", seen)
    assert "asking" not in seen
    assert (0, "There.\n") == done[:2]
