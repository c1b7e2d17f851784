"""A whole session in terminals of 80x24 and 40x24: `screens/*.txt` have the screens.

`TENUTO_WRITE_SCREENS=1 pytest tests/cli/test_walkthrough.py` writes them again.
"""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import pytest

from tenuto.testing import call, say, think, turn

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="there are no pseudo-terminals")
SCREENS = Path(__file__).with_name("screens")
TOOLS = '''
import pathlib, time
from tenuto import tool

@tool(effect="pure")
def weather(city: str) -> str:
    """Tell the weather."""
    pathlib.Path("begun").write_text("yes")
    while not pathlib.Path("go").exists():
        time.sleep(0.01)
    return f"Rain in {city}."
'''
LONG = "for i in $(seq 1 9); do echo $i; done; " * 60 + "rm -rf build"
NOTES = "".join(f"- point {number}\n" for number in range(1, 9))
TOOL_OPTIONS = ("-T", "write_file", "-T", "edit_file", "-T", "shell")


class Walk:
    """Runs commands in terminals, types, and collects the screens."""

    def __init__(self, tenuto, columns):
        self._tenuto = tenuto
        self._columns = columns
        self.pages = []

    def __call__(self, *arguments, answers=(), kill_at=None, env=None, folder=None):
        """Run a command; `answers` are pairs of a pattern on the screen and the text to type then."""
        tenuto, before = self._tenuto, (self._tenuto.env, self._tenuto.folder)
        tenuto.env, tenuto.folder = {**tenuto.env, **(env or {})}, folder or tenuto.folder
        try:
            running = tenuto.terminal(*arguments, columns=self._columns, rows=24)
        finally:
            tenuto.env, tenuto.folder = before
        running.answer(*answers)
        if kill_at is not None:
            kill_at.read_text()  # opens when the tool does
            running.expect_screen("running weather")
            running.process.kill()
        code, text = running.end()
        typed = " ".join(f"'{word}'" if re.search(r"[ *()]", word) else word for word in arguments)
        self.pages.append(f"$ tenuto {typed}\n{text}[exit {code}]\n")
        return running

    def text(self):
        """Return all screens, without what differs between runs."""
        text = "\n".join(self.pages).replace(str(self._tenuto.folder), "~/project")
        text = re.sub(r"\b01[0-9a-z]{10}(?:[0-9a-z]{14})?", "01SESSION", text)
        text = re.sub(r"[-|/\\] running weather.*", "| running weather", text)
        return re.sub(r"\$0\s+\d+\n?\.\n?\d\s+s\b", "$0  N.N s", text)


@pytest.fixture(params=[80, 40], ids=["80x24", "40x24"])
def walk(request, tenuto, tmp_path):
    """The home directory is short, so that paths wrap in the same place everywhere."""
    project = tmp_path / "project"
    project.mkdir()
    tenuto.env["HOME"], tenuto.folder = str(tmp_path), project
    (project / "tools.py").write_text(TOOLS)
    os.mkfifo(project / "begun")
    return Walk(tenuto, request.param)


def test_walkthrough(walk, tenuto, tenuto_sim, tmp_path):
    project, elsewhere = tenuto.folder, tmp_path / "elsewhere"
    elsewhere.mkdir()
    without_key = {"TENUTO_MODEL": "", "TENUTO_SIM_URL": ""}
    walk("run", "Hello", env=without_key)

    tenuto_sim.script(
        turn(think("The notes need a list."), call("write_file", {"path": "notes.md", "content": NOTES})),
        turn(call("edit_file", {"path": "notes.md", "old": "- point 4\n", "new": "- point four\n"})),
        turn(call("shell", {"command": "echo one"})),
        turn(call("shell", {"command": LONG})),
        turn(call("shell", {"command": "echo two"})),
        turn(say("# Done\n\nThe notes have **8 points**; the build directory stays.")),
        turn(think("Hm."), say("Yes, *very* short.")),
        when="Write the notes",
    )
    walk(
        *("run", "Write the notes", "-n", "notes", *TOOL_OPTIONS),
        answers=[
            (r"create notes\.md(.|\n)*\[v\]iew:\s*$", "y\n"),
            (r"\+- point four(.|\n)*\[v\]iew:\s*$", "yes please\n"),
            (r"echo one(.|\n)*\[v\]iew:\s*$", "always\n"),
            (r"not\s+shown: press v(.|\n)*\[v\]iew:\s*$", "rm it?\n"),
            (r"please answer y(.|\n)*\[v\]iew:\s*$", "n keep the build directory\n"),
        ],
    )
    tenuto_sim.script(turn(call("weather", {"city": "Oslo"})), turn("It rains."), when="Oslo")
    walk("run", "The weather in Oslo?", "-n", "trip", "-T", "tools:weather", "-T", "shell", kill_at=project / "begun")
    (elsewhere / "go").touch()
    tenuto.env["PYTHONPATH"] += f"{os.pathsep}{project}"
    walk("resume", "trip", "-T", "tools:weather", folder=elsewhere)
    walk("fork", "notes", "-n", "branch")
    walk("handover", "branch", "sim/openai")
    walk("audit", "branch")
    plain = walk("resume", "branch", "Short?", env={"NO_COLOR": "1"})
    tenuto_sim.script(turn(say("One.")), turn(say("Two.")), when="chat")
    walk(
        *("chat", "-m", "sim/anthropic"),
        answers=[
            (r"to\s+quit(.|\n)*you>\s*$", "First in a chat\n"),
            (r"One\.(.|\n)*you>\s*$", "/model sim/openai\n"),
            (r"switched to sim/openai(.|\n)*you>\s*$", "Second in a chat\n"),
            (r"Two\.(.|\n)*you>\s*$", "/undo\n"),
            (r"you> Second in a chat\s*$", "\x15exit\n"),
        ],
    )
    screen = SCREENS / f"walkthrough_{walk._columns}x24.txt"
    if os.environ.get("TENUTO_WRITE_SCREENS"):
        screen.parent.mkdir(exist_ok=True)
        screen.write_text(walk.text(), "utf-8")

    assert not re.search(r"\x1b\[[0-9;]*m", plain.seen)
    assert (project / "notes.md").read_text() == NOTES.replace("point 4", "point four")
    assert walk.text() == screen.read_text("utf-8")
