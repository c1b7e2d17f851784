"""Approvals: what the question shows, what the answers do, and what is remembered."""

from __future__ import annotations

import json
import re
import stat
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cli.virtual_terminal import VirtualTerminal
from tenuto.cli.config import ConfigError
from tenuto.cli.session.approval import parse_answer
from tenuto.cli.session.approval_store import approvals_file, forget_pattern, remember_pattern, remembered_patterns
from tenuto.cli.session.call_view import argument_lines, shorten_rows, show_blanks, view_call
from tenuto.core.messages import ToolCallView
from tenuto.testing import call, turn

DANGER = "rm -rf ~/work"


def shell(command):
    return ToolCallView("1", "shell", json.dumps({"command": command}))


ANSWERS = {
    True: ["y", "yes", "ok", "okay", "sure", "yep", "allow", "YES", "yes please", "yes, do it", "ok, please!"],
    False: ["n", "No", "deny"],
    "not today": ["n not today"],
    "use git": ["no, use git"],
    "x": ["N: x"],
    None: ["", "1", "not on a Sunday", "nothing", "x", "yesterday", "always not"],
}


@pytest.mark.parametrize("decision, answer", [(one, answer) for one, answers in ANSWERS.items() for answer in answers])
def test_words_that_decide(decision, answer):
    """Other answers are asked again, also those that add a condition."""
    problem = "" if decision is not None else "please answer y, n or a (to refuse with a reason: n REASON)"

    assert parse_answer(answer) == (decision, problem)
    assert parse_answer(f"yes, but {answer}!") == (None, "answer y to run it as shown, or n REASON")


LONG = "echo a very harmless text; " * 230
HIDDEN = {
    "prefix of words": f"{'echo ok; ' * 40}{DANGER}",
    "prefix of 6,000 characters": f"{LONG[:6000]}{DANGER}",
    "suffix of 6,000 characters": f"{DANGER}; {LONG[:6000]}",
    "between 3,000 characters": f"{LONG[:3000]}{DANGER}; {LONG[:3000]}",
    "one long word": f"echo {'x' * 6000}; {DANGER}",
    "long path": f"cat /{'a/' * 800}b; {DANGER}",
    "comment before": f"true # {'why ' * 300}\n{DANGER}",
    "100 spaces": f"ls{' ' * 100}; {DANGER}",
    "3,000 spaces": f"ls{' ' * 3000}; {DANGER}",
    "500 tabs": f"ls{chr(9) * 500}; {DANGER}",
    "spaces and tabs": f"ls{(' ' + chr(9)) * 800}; {DANGER}",
    "no-break spaces": f"ls{chr(0xA0) * 2000}; {DANGER}",
    "ideographic spaces": f"ls{chr(0x3000) * 2000}; {DANGER}",
    "Braille blanks": f"ls{chr(0x2800) * 2000}; {DANGER}",
    "Hangul fillers": f"ls{chr(0x3164) * 2000}; {DANGER}",
    "zero-width joiners": f"ls{chr(0x200D) * 2000}; {DANGER}",
    "combining joiners": f"ls{chr(0x34F) * 2000}; {DANGER}",
    "100 newlines": f"ls{chr(10) * 100}{DANGER}",
    "3,000 newlines": f"ls{chr(10) * 3000}{DANGER}",
    "newlines with long blanks": f"ls{(chr(10) + ' ' * 90) * 90}\n{DANGER}",
    "carriage return": f"{DANGER}\rls                                                        ",
    "200 short lines": "".join(f"echo {number}\n" for number in range(200)) + DANGER,
    "in the middle of 200 lines": "echo a\n" * 100 + f"{DANGER}\n" + "echo b\n" * 100,
    "here-document": f"cat <<END > /dev/null\n{'text' + chr(10)}" * 50 + f"END\n{DANGER}",
    "right-to-left override": f"ls \u202e{DANGER}\u202c",
    "left-to-right marks": f"ls{chr(0x200E) * 500}; {DANGER}",
    "clear screen": f"{DANGER}; ls\x1b[2J\x1b[H",
    "cursor up": f"ls; {DANGER}\n\x1b[1A\x1b[2K",
    "concealed": f"ls \x1b[8m; {DANGER}\x1b[0m",
    "backspaces": f"{DANGER}{chr(8) * 20}ls",
    "title sequence": f"ls \x1b]0;{DANGER}\x07",
    "C1 control": f"ls \x9b8m; {DANGER}",
    "tag characters": f"ls {''.join(chr(0xE0000 + ord(letter)) for letter in 'hello' * 90)}; {DANGER}",
}


@pytest.mark.parametrize("columns, rows", [(80, 24), (40, 24)])
@pytest.mark.parametrize("name", HIDDEN)
def test_nothing_hides_in_a_command(name, columns, rows):
    """The dangerous part is on the screen, or the number of hidden characters is, with the key that shows them."""
    view = view_call(shell(HIDDEN[name]), "/work")
    shown = [row.text for row in shorten_rows(view, columns - 4, rows - 6, key=": press v to show them")]
    whole = [row.text for row in shorten_rows(view, columns - 4, sys.maxsize)]
    screen = VirtualTerminal(columns, rows).feed("".join(f"    {line}\r\n" for line in shown))
    visible, pattern = "\n".join(screen.visible), r"\s+".join(DANGER.split(" "))
    note = re.search(
        r"\.\.\. ([\d,]+) lines, ([\d,]+) characters not shown: press v to show them", " ".join(visible.split())
    )

    assert len(screen.lines) < rows  # all of it is on the screen
    assert re.search(pattern, visible) or note
    assert re.search(pattern, "\n".join(whole))
    if note:
        hidden = sum(map(len, whole)) - sum(len(line) for line in shown if line in whole)
        assert int(note[2].replace(",", "")) >= hidden > 0
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069]", "".join(whole))


@given(st.text(max_size=300), st.integers(10, 100), st.integers(8, 60))
def test_a_shortened_text_has_head_and_tail(text, columns, most):
    rows = view_call(shell(text), "/work")
    whole, shown = shorten_rows(rows, columns, sys.maxsize), shorten_rows(rows, columns, most)

    assert shown == whole if len(whole) <= most else (shown[0], shown[-1]) == (whole[0], whole[-1])


def test_blanks_are_counted():
    assert show_blanks(f"a{' ' * 20}b{' ' * 21}c") == f"a{' ' * 20}b[21 spaces]c"
    assert show_blanks("a\n\n\nb\n\n\n\nc") == "a\n\n\nb\n[3 empty lines]\nc"


def test_arguments_of_other_tools_cannot_imitate_each_other():
    view = ToolCallView("1", "send", json.dumps({"to": "a\nbody: b", "body": {"x": [1]}, "n\n": 3}))

    assert list(argument_lines(view)) == ["to: a", "| body: b", 'body: {"x":[1]}', "n: 3"]
    assert list(argument_lines(ToolCallView("1", "send", "{oops"))) == ["arguments: {oops"]


def lines_of(name, root, **arguments):
    return [row.text for row in view_call(ToolCallView("1", name, json.dumps(arguments)), str(root))]


CONTEXT = [" line 6", " line 7", " line 8", "-line 9", "+nine\\x1b[2J", " line 10", " line 11", " line 12"]
CHANGES = [
    ("write_file", {"path": "new.md", "content": "one\n2\n"}, ["create new.md (2 lines)", "one", "2"]),
    (
        *("write_file", {"path": "old.md", "content": "one\n2\nthree\n"}),
        ["overwrite old.md (8 -> 12 bytes)", "@@ -1,2 +1,3 @@", " one", "-two", "+2", "+three"],
    ),
    (
        *("edit_file", {"path": "a.py", "old": "line 9\n", "new": "nine\x1b[2J\n"}),
        ["edit a.py (150 -> 152 bytes)", "@@ -7,7 +7,7 @@", *CONTEXT],
    ),
]


@pytest.mark.parametrize("name, arguments, shown", CHANGES)
def test_a_change_is_shown_as_a_diff(tmp_path, name, arguments, shown):
    (tmp_path / "old.md").write_text("one\ntwo\n")
    (tmp_path / "a.py").write_text("".join(f"line {number}\n" for number in range(20)))
    rows = view_call(ToolCallView("1", name, json.dumps(arguments)), str(tmp_path))

    assert shown == [row.text for row in rows]
    styles = {"@": "cyan", " ": "", "-": "red", "+": "green"}
    assert all(row.style == styles[row.text[0]] for row in rows[1:] if "@@" in shown[1])


@pytest.mark.parametrize(
    "name, arguments",
    [
        ("edit_file", {"path": "a.py", "old": "missing", "new": "x"}),
        ("edit_file", {"path": "../a.py", "old": "x", "new": "y"}),
        ("edit_file", {"path": "none.py", "old": "x", "new": "y"}),
        ("write_file", {"path": "/etc/passwd", "content": "x"}),
    ],
)
def test_a_change_that_will_fail_is_shown_with_the_reason(tmp_path, name, arguments):
    (tmp_path / "a.py").write_text("text\n")
    first, *rest = lines_of(name, tmp_path, **arguments)

    assert first.startswith("this call fails: ")
    assert rest == [f"{key}: {value}" for key, value in arguments.items()]


def test_patterns_are_remembered_for_a_directory(home, tmp_path):
    data = tmp_path
    (data / "one").mkdir()
    (data / "link").symlink_to(data / "one")
    remember_pattern(str(data / "one"), "shell(git *)")
    remember_pattern(str(data / "link"), "edit_file")
    remember_pattern(str(data / "one"), "edit_file")

    assert remembered_patterns(str(data / "link")) == ["shell(git *)", "edit_file"]
    assert remembered_patterns(str(data)) == []
    assert forget_pattern(str(data / "one"), "edit_file")
    assert not forget_pattern(str(data / "one"), "edit_file")
    assert remembered_patterns(str(data / "one")) == ["shell(git *)"]
    if sys.platform != "win32":
        assert stat.S_IMODE(approvals_file().stat().st_mode) == 0o600


@pytest.mark.parametrize("text", ["{", "[]", '{"a": "b"}'])
def test_a_damaged_file_is_an_error(home, text):
    approvals_file().write_text(text)
    with pytest.raises(ConfigError, match=r"approvals\.json is not a JSON object"):
        remembered_patterns(".")


def test_a_project_cannot_grant_approvals(here, tenuto_sim, tmp_path):
    """Files in the working directory change nothing; the pattern in the data directory does."""
    for name in ("approvals.json", ".tenuto/approvals.json", ".tenuto/config.toml", "config.toml"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(
            json.dumps({str(tmp_path): ["shell"]}) if name.endswith("json") else 'allow = ["shell"]\n'
        )
    tenuto_sim.script(turn(call("shell", {"command": "echo hi"})), turn("Done."))
    assert here("run", "Go", "-T", "shell").code == 6
    remember_pattern(str(tmp_path), "shell(echo *)")
    done = here("resume")

    assert done[:2] == (0, "Done.\n")
    assert "< shell: hi" in done.err
    shown, gone = here("config", "show"), here("config", "forget", "shell(echo *)")
    assert shown.out.endswith(f"\nallow  shell(echo *)  remembered\nin {approvals_file()}\n")
    assert gone.code == 0
    assert "approvals.json" not in here("config", "show").out
