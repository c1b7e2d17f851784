"""A chat as a process of its own: in a terminal, and in a pipe."""

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
READY = r"you>\n$"
PAGE = (Path(__file__).parents[2] / "docs" / "command" / "chat.md").read_text("utf-8")
PASTED = "\x1b[200~{}\x1b[201~"


def messages(tenuto, *session):
    """Return the user messages of a session."""
    page = tenuto.look("show", *session)
    return [text.strip() for text in re.findall(r"\nuser.*\n((?:  .*\n)*)", page)]


def test_the_chat_of_the_documentation(tenuto, tenuto_sim):
    [shown] = re.findall(r"```text\n\$ tenuto (.*?)```", PAGE, re.DOTALL)
    command, *lines = shown.splitlines()
    running = tenuto.terminal(*command.split(), *PLAIN)
    for number, typed in enumerate(re.findall(r"(?m)^you> (.*)$", shown), 1):
        running.expect_screen(rf"(?s)\A(?:(?!you>).)*(?:you>(?:(?!you>).)*){{{number}}}\Z")
        running.expect_screen(r"you>[^\n]*\n\Z")
        running.type(f"\x15{typed}\n")
    code, seen = running.end()
    pattern = "".join(r"(?:.*\n)*?" if line == "..." else _line(line) for line in lines)

    assert code == 0
    assert re.fullmatch(pattern, seen), seen
    tenuto_sim.assert_clean()


def _line(line):
    return ".*".join(map(re.escape, line.split("..."))) + r"\n"


def test_editing_history_pasting_and_completion(tenuto, tenuto_sim):
    tenuto_sim.script(turn("One."), turn("Two."), turn("Three."))
    (tenuto.folder / "home").mkdir()
    (tenuto.folder / "home" / "history").write_text("from the last\\ntime\n")
    running = tenuto.terminal("chat", *PLAIN)
    running.answer(
        (READY, "\x1b[A!\n"),  # arrow up
        (r"One\.(.|\n)*you>\n$", PASTED.format("def f():\n\treturn '\x01'\n") + "\n"),
        (r"Two\.(.|\n)*you>\n$", "/und\t\n"),
        (r"exchange undone(.|\n)*you> def f(.|\n)*return '\^A'\n\.\.\.>\n$", "# again\x1b\r# and again\n"),  # Alt-Enter
    )
    running.expect_screen(r"# and again(.|\n)*Two\.(.|\n)*you>\n$")
    big = threading.Thread(target=running.type, args=(PASTED.format("word " * 4_000) + "\n",))
    big.start()
    running.expect(r"Three\.(.|\n)*you>")
    big.join()
    running.type("cleared\x03\x03")
    code, _ = running.end()
    texts = ["from the last\\ntime", "from the last\\ntime!", "def f():\\n\treturn '\x01'\\n", "/undo "]

    assert code == 130
    code_text = "def f():\n  \treturn '\\x01'"
    assert messages(tenuto) == [
        "from the last\n  time!",
        f"{code_text}\n  # again\n  # and again",
        ("word " * 4_000).strip(),
    ]
    assert messages(tenuto, "~1") == ["from the last\n  time!", code_text]
    stored = (tenuto.folder / "home" / "history").read_text().splitlines()
    assert stored == [*texts, "def f():\\n\treturn '\x01'\\n# again\\n# and again"]
    tenuto_sim.assert_clean()


def test_a_killed_chat_continues_the_tool_call(tenuto, tenuto_sim, calls):
    tenuto_sim.script(turn(call("look", {"at": "it"})), turn("Seen."))
    running = tenuto.terminal("chat", "-T", "tools:look", *PLAIN)
    running.expect_screen(READY)
    running.type("Look!\n")
    calls()
    running.process.kill()
    running.end()
    (tenuto.folder / "go").touch()
    again = tenuto.terminal("chat", "-c", "-T", "tools:look", *PLAIN)
    again.expect_screen(r"Seen\.(.|\n)*you>\n$")
    again.type("/exit\n")
    code, seen = again.end()

    assert code == 0
    assert "you> Look!\n" in seen
    assert "continuing the interrupted turn\n" in seen
    assert '> look at="it" (attempt 2)\n< look: it is there\n' in seen
    tenuto_sim.assert_clean()


@pytest.mark.parametrize("term", ["xterm", "dumb"])
def test_approvals_in_a_chat(tenuto, tenuto_sim, tools, term):
    """A stopped question takes no later input; Ctrl-D leaves the call waiting; an empty line asks again."""
    tenuto.env["TERM"] = term
    tenuto_sim.script(
        turn(call("blast", {"where": "A"})), turn("Well."), turn(call("blast", {"where": "B"})), turn("Ok.")
    )
    running = tenuto.terminal("chat", "-T", "tools:blast", *PLAIN)
    running.answer(
        (READY, "Go!\n"),
        (r"\[v\]iew:\s$", "\x03"),
        (r"session saved(.|\n)*you>\n$", "No, wait.\n"),
        (r"Well\.(.|\n)*you>\n$", "Now!\n"),
        (r"where: B(.|\n)*\[v\]iew:\s$", "\x04"),
        (r"waiting for approval in .*\n  blast: where: B(.|\n)*you>\n$", "\n"),
        (r"waiting for approval(.|\n)*where: B(.|\n)*\[v\]iew:\n$", "y\n"),
        (r"Ok\.(.|\n)*you>\n$", "\x04"),
    )
    code, seen = running.end()

    assert code == 0
    assert messages(tenuto) == ["Go!", "No, wait.", "Now!"]
    assert "< blast: B is gone" in seen
    tenuto_sim.assert_clean()


def test_a_signal_and_a_closed_terminal_end_the_chat(tenuto, tenuto_sim):
    tenuto_sim.script(turn("One."), when="Hi")
    tenuto_sim.script(turn(think("Hm."), stall()), when="Wait")
    ended, closed = tenuto.terminal("chat", *PLAIN), tenuto.terminal("chat", "--ephemeral", *PLAIN)
    ended.expect_screen(READY)
    closed.expect_screen(READY)
    ended.type("Hi\n")
    ended.expect_screen(r"One\.(.|\n)*you>\n$")
    ended.process.send_signal(signal.SIGTERM)
    code, seen = ended.end()
    closed.type("Wait\n")
    closed.expect(r"Hm\.")
    os.close(closed._master)
    closed._master = os.open(os.devnull, os.O_RDONLY)

    assert code == 143
    assert re.search(r"you>\n+resume with: tenuto chat 01\w+\n$", seen)
    assert closed.process.wait(30) == 129
    assert (tenuto.folder / "home" / "history").read_text() == "Hi\n"


def test_each_line_of_a_pipe_is_a_message_or_a_command(tenuto, tenuto_sim):
    """Answers go to stdout, also if only stdin is a terminal."""
    tenuto_sim.script(turn("One."), turn("Two."), turn("Three."))
    (tenuto.folder / "lines").write_bytes(b"\xef\xbb\xbfHi\r\n\n/name mine\n//two\n\xff\n")
    with (tenuto.folder / "lines").open("rb") as lines:
        done = tenuto.run("chat", stdin=lines)
    running = tenuto.terminal("chat", "mine", "-q", *PLAIN, stdout=subprocess.PIPE)
    running.expect(r"you> $")
    running.type("Three?\n")
    running.expect(r"(?s)Three\?.*you> $")
    running.type("\x04")
    code, _ = running.end()

    assert done[:2] == (2, "One.\nTwo.\n")
    assert "! not sent: invalid UTF-8\n" in done.err
    assert messages(tenuto) == ["Hi", "/two", "Three?"]
    assert (code, running.process.stdout.read()) == (0, b"Three.\n")
    assert (tenuto.folder / "home" / "history").read_text().splitlines() == ["Three?"]
    running.process.stdout.close()
    tenuto_sim.assert_clean()
