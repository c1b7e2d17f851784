"""`run`, approvals and `chat` in a pseudo-terminal. `screens/*.txt` have the screens of a whole session."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tenuto.testing import call, say, stall, think, turn

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="there are no pseudo-terminals")
PLAIN = ("--color", "never")
ASKED = r"\[v\]iew:\s$"


def test_out_writes_the_answer_to_the_file(tenuto, tenuto_sim):
    (tenuto.folder / "note.txt").write_text("the note")
    tenuto_sim.script(turn(say("I look."), call("read_file", {"path": "note.txt"})), turn(say("# The answer")))
    running = tenuto.terminal("run", "Read.", "-T", "read_file", "--out", "answer.md", "-n", "reading")
    code, text = running.end()
    seen = text.splitlines()

    assert (0, "# The answer\n") == (code, (tenuto.folder / "answer.md").read_text())
    assert ["I look.", '> read_file path="note.txt"', "< read_file: the note", ""] == seen[:4]
    assert seen[4].startswith("sim/anthropic  ")
    assert seen[5].startswith("resume with: tenuto resume 01")
    assert len(seen) == 6


def test_structured_output_is_printed_as_escaped_json(tenuto, tenuto_sim):
    (tenuto.folder / "schema.json").write_text('{"type": "array", "items": {"type": "string"}}')
    tenuto_sim.script(turn(think("Hm."), say('{"value": ["*a*", "_b_\\u001b[2J\u202e"]}')))
    code, text = tenuto.terminal("run", "Which?", "--schema", "schema.json", *PLAIN).end()

    assert 0 == code
    assert text.startswith('Hm.\n["*a*", "_b_\\u001b[2J\\u202e"]\n\nsim/anthropic  ')


def test_resizing_while_the_answer_streams(tenuto, tenuto_sim):
    """To a narrower window, and to sizes that nothing fits into."""
    tenuto.env["XTERM_VERSION"] = "XTerm(390)"  # it cuts lines, as the terminal of the test does
    words = "Words that are so many that they do not have any room in a single row of this window."
    tenuto_sim.script(turn(say(["First.\n\n", words]), stall(times=1), say("There.")))
    running = tenuto.terminal("run", "Hi", *PLAIN, columns=100, rows=12)
    running.expect(r"window\.(.|\n)*is answering")
    before = running.display().visible
    running.resize(40, 12)
    running.expect(r"single row of this\r\nwindow\.\x1b|single row of this\r\nwindow\.\r\n")
    after = running.display().visible
    for columns, rows in ((7, 2), (1, 1), (300, 100), (40, 12)):
        running.resize(columns, rows)
    running.type("\x03")
    code, seen = running.end()

    assert ["First.", "", words] == before[:3]
    assert ["Words that are so many that they do not", "have any room in a single row of this", "window."] == after[2:5]
    assert 130 == code
    assert "Traceback" not in running.seen
    assert "is answering" not in seen


def hang_up(running):
    """Close the window of the terminal."""
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, running._master)
    os.close(nothing)
    return running.process.wait(30)


ANSWERING = turn(think("Hm."), stall(times=1), say("There."))
ASKING = turn(call("shell", {"command": "touch done"})), turn("Then not.")


@pytest.mark.parametrize("code", [130, 129], ids=["ctrl-c", "closed terminal"])
@pytest.mark.parametrize(
    "turns, seen, answer",
    [([ANSWERING], r"Hm\.", "There.\n"), (ASKING, ASKED, "Then not.\n")],
    ids=["answer", "question"],
)
def test_interrupted_run_can_be_resumed(tenuto, tenuto_sim, code, turns, seen, answer):
    """A call is not run after its question was interrupted."""
    tenuto_sim.script(*turns)
    running = tenuto.terminal("run", "Hi", "-T", "shell", *PLAIN)
    running.expect(seen)
    if code == 129:
        assert 129 == hang_up(running)
    else:
        running.type("\x03")
        assert 130 == running.end()[0]
        text = running.display().text
        assert re.search(r"session saved\n(\n.*\n)?resume with: tenuto resume \w+\n", text), text
        assert "asking sim" not in text

    assert "[cancelled]" in tenuto.look("show")
    assert (0, answer) == tenuto.run("resume")[:2]
    assert not (tenuto.folder / "done").exists()


def test_answers_decide_about_calls(tenuto, tenuto_sim, tools):
    """`a` allows the shown pattern in this run, `p` in this directory; a denial without a reason has a standard one."""
    long = "".join(f"echo line {number}\n" for number in range(60)) + "echo end"
    commands = ["echo one", "echo two", "echo three; echo four", "printf five", long]
    tenuto_sim.script(
        turn(call("blast", {"where": "A\n  where: B"}), call("flood", {"where": "C"}), call("flood", {"where": "D"})),
        *(turn(call("shell", {"command": command})) for command in commands),
        turn("Done."),
    )
    tenuto_sim.script(*(turn(call("shell", {"command": each})) for each in ("printf six", "echo 7")), when="Again")
    running = tenuto.terminal(
        "run", "Go!", "-T", "tools:blast", "-T", "tools:flood", "-T", "shell", *PLAIN, columns=120
    )
    for asked, answer in (
        (r"blast in .*\r\n    where: A\r\n    \|   where: B\r\n", "n"),
        (r"where: C\r\n.*in this run: flood / \[p\]roject", "always"),
        (r"echo one\r\nAllow\? .*in this run: shell\(echo \*\) / \[p\]roject / ", "a"),
        (r"echo three; echo four\r\nAllow\?", "YES"),
        (r"printf five\r\nAllow\? .*shell\(printf \*\)", "p"),
        (r"echo line 0\r\n(.|\n)*\.\.\. \d\d lines, \d{3} characters not shown: press v to show them", "v"),
        (r"echo line 30\r\n", "y"),
    ):
        running.expect(f"{asked}(.|\n)*{ASKED}")
        running.type(f"{answer}\n")
    code, seen = running.end()
    done = tenuto.run("run", "Again!", "-T", "shell")
    hint = f"allow it with: tenuto resume {done.err.partition('tenuto resume ')[2][:12]} --allow 'shell(echo *)'"

    assert code == 6  # a call was denied
    assert "\n! blast [denied]: blast was not run: it was denied.\n" in seen
    assert "\n< flood: D is wet\n" in seen
    assert "where: D" not in seen
    assert "< shell: six" in done.err
    assert (6, True, True) == (done.code, "  shell: echo 7\n" in done.err, hint in done.err)
    remembered = json.loads((tenuto.folder / "home" / "approvals.json").read_text())
    assert {str(tenuto.folder): ["shell(printf *)"]} == remembered


def test_ctrl_d_leaves_the_call_waiting(tenuto, tenuto_sim, tools):
    """The question is on the terminal if the prompt comes from a pipe or the answer goes to one."""
    tenuto_sim.script(turn(call("blast", {"where": "A"})), turn("Done."))
    piped = subprocess.Popen(["echo", "Go!"], stdout=subprocess.PIPE)
    running = tenuto.terminal("run", "-T", "tools:blast", *PLAIN, stdin=piped.stdout)
    piped.stdout.close()
    running.expect(ASKED)
    running.type("\x04")
    code, seen = running.end()
    piped.wait()
    again = tenuto.terminal("resume", "-T", "tools:blast", *PLAIN, stdout=subprocess.PIPE)
    again.expect(ASKED)
    again.type("y\n")

    assert (code, "  blast: where: A\n" in seen) == (6, True)
    assert (again.end()[0], again.process.stdout.read().decode()) == (0, "Done.\n")
    again.process.stdout.close()


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
    running.expect_screen("to quit")  # it is printed above the first prompt
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


def test_output_to_a_closed_terminal_is_a_hangup(tenuto):
    """No signal comes: the terminal does not control the process."""
    master, slave = os.openpty()
    os.close(master)
    with subprocess.Popen(
        tenuto.command("models"), stdout=slave, stderr=slave, env=tenuto.env, cwd=tenuto.folder
    ) as process:
        os.close(slave)

        assert process.wait(30) == 129


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


def test_answers_go_to_a_pipe_if_only_stdin_is_a_terminal(tenuto, tenuto_sim):
    """The history has messages of terminals only."""
    tenuto_sim.script(turn("One."), turn("Two."))
    assert "One.\n" == tenuto.run("run", "Hi", "-n", "mine", "-q").out
    running = tenuto.terminal("chat", "mine", "-q", *PLAIN, stdout=subprocess.PIPE)
    running.expect(r"you> $")
    running.type("Two?\n")
    running.expect(r"(?s)Two\?.*you> $")
    running.type("\x04")

    assert 0 == running.end()[0]
    assert b"Two.\n" == running.process.stdout.read()
    assert ["Hi", "Two?"] == messages(tenuto)
    assert ["Two?"] == (tenuto.folder / "home" / "history").read_text().splitlines()
    running.process.stdout.close()
