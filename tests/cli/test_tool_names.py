"""What `-T` takes: names, groups, lists, modules and files; and where a session finds its own tools again."""

from __future__ import annotations

import json

import pytest

from tenuto.testing import call, turn
from tenuto.tools.builtin import BUILTIN

TOOLS = '''
from tenuto import tool

@tool(effect="pure")
def weather(city: str = "Oslo") -> str:
    """The weather."""
    return "sunny"

@tool(effect="once", approval=True)
def blast() -> str:
    """Blast."""
    return "done"
'''


@pytest.fixture
def file(tmp_path):
    (tmp_path / "colorsys.py").write_text(TOOLS)  # a name that a module of Python has
    (tmp_path / "empty.py").write_text("x = 1\n")
    return tmp_path / "colorsys.py"


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("files", [name for name in BUILTIN if name != "shell"]),
        ("read", ["read_file", "list_files", "search_files"]),
        ("all", [*BUILTIN]),
        ("shell, read_file", ["shell", "read_file"]),
        ("read,read_file,shell", ["read_file", "list_files", "search_files", "shell"]),
        ("colorsys.py", ["weather", "blast"]),
        ("./colorsys.py:weather", ["weather"]),
    ],
)
def test_tool_names_and_groups(here, file, name, expected):
    assert [tool["name"] for tool in json.loads(here("tools", name, "--json").out)] == expected


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("filez", "did you mean files?"),
        ("nowhere.py", "-T nowhere.py: file not found"),
        ("empty.py", "the file has no tools"),
        ("colorsys.py:wether", "did you mean weather?"),
    ],
)
def test_unusable_tool_name_is_code_2(here, file, name, words):
    done = here("run", "Hi", "-T", name)

    assert (done.code, words in done.err) == (2, True), done.err


def test_session_stores_where_its_tools_are(here, tenuto_sim, file):
    tenuto_sim.script(turn(call("blast", {})), turn("Done."))
    waiting = here("run", "Go.", "-T", "./colorsys.py", "-T", "read_file")
    without = here("resume", "--approve", "auto")
    given = here("resume", "--allow", "blast", "-T", "./colorsys.py")

    assert (waiting.code, without.code, given.code) == (6, 2, 0)
    assert "-T ./colorsys.py" in waiting.err
    assert "\n  add -T ./colorsys.py\n" in without.err
