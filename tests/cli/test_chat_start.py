"""The prompt of a new chat is drawn before the agent and the store are loaded."""

from __future__ import annotations

import re
import sys

from cli.conftest import Terminal

READY = "\x1b[?2004h"  # the prompt accepts input: bracketed paste is switched on
MARKED = """
import sys

class Marker:
    def find_spec(self, name, path=None, target=None):
        if name in ("tenuto.agent.agent", "tenuto.store.open", "msgspec"):
            sys.stderr.write("LOADED")

sys.meta_path.insert(0, Marker())
from tenuto.cli.main import main
sys.exit(main(["chat", "-m", "sim/anthropic"]))
"""


def test_prompt_is_drawn_before_the_agent_is_loaded(tenuto, tmp_path):
    terminal = Terminal([sys.executable, "-c", MARKED], tenuto.env, tmp_path)
    try:
        terminal.expect_screen(r"to quit\nyou>")
        terminal.expect(rf"(?s)to quit.*{re.escape(READY)}")  # the prompt is drawn again
        terminal.type("\x04")
        code, text = terminal.end()
    finally:
        terminal.close()

    assert code == 0
    assert terminal.seen.index(READY) < terminal.seen.index("LOADED")
    assert text.index("to quit") < text.index("you>")


def test_message_that_is_typed_at_once_is_sent(tenuto):
    terminal = tenuto.terminal("chat")
    terminal.expect(r"\?2004h")
    terminal.type("Early\n")
    terminal.expect_screen(r"(?s)you> Early\n.*\nEarly\n\nsim/anthropic [^\n]*\n\nyou>\s*\Z")
    terminal.type("\x04")
    code, text = terminal.end()

    assert (code, text.count("to quit")) == (0, 1)


def test_error_replaces_the_prompt(tenuto):
    for name in ("TENUTO_SIM_URL", "TENUTO_MODEL"):
        tenuto.env.pop(name)
    missing = tenuto.terminal("chat", "-m", "anthropic/claude-sonnet-5-5").end()
    unknown = tenuto.terminal("chat", "-m", "sim/anthropic:huge").end()

    assert (missing[0], unknown[0]) == (3, 2)
    assert missing[1].startswith("error: no API key for anthropic\n")
    assert unknown[1].startswith("error: unknown effort 'huge'")


def test_continued_session_is_shown_before_the_prompt(tenuto):
    tenuto.run("run", "Hi", "-q", "-n", "trip")
    terminal = tenuto.terminal("chat", "trip")
    terminal.expect_screen(r"(?s)you> Hi\nHi\n.*to quit\nyou>")
    terminal.type("\x04")

    assert terminal.end()[0] == 0
