"""The commands of README.md, docs/command.md and docs/command/ do what the pages show."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from tenuto.cli.errors import ExitCode
from tenuto.cli.main import COMMANDS

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = [DOCS / "command.md", *sorted((DOCS / "command").glob("*.md")), ROOT / "README.md"]
PAGE = PAGES[0].read_text("utf-8")
CALL = re.compile(
    r"^\$ (?:echo \"(?P<piped>.*?)\" \| )?tenuto (?P<arguments>.*)\n(?P<shown>(?:(?!\$ ).*\n)*)", re.MULTILINE
)


def pattern(shown):
    """Return the text of a page as a pattern: three dots match any text, alone on a line any lines."""
    lines = [r"(?:.*\n)*?" if line == "..." else _line(line) for line in shown.splitlines()]
    return "".join(lines)


def _line(line):
    return ".*".join(map(re.escape, line.split("..."))) + r"\n"


def calls_in(page):
    """Return the calls on a page, in their order."""
    blocks = re.findall(r"```console\n(.*?)```", page.read_text("utf-8"), re.DOTALL)
    return [found for block in blocks for found in CALL.finditer(block)]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_call_on_a_page_does_what_it_shows(here, unset, tmp_path, monkeypatch, page):
    """In one directory: stderr, then stdout, then the hint. `# exit N` is the exit code."""
    for _, file, text in re.findall(r"```(\w+)\n# (\S+)\n(.*?)```", page.read_text("utf-8"), re.DOTALL):
        (tmp_path / file).write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    for call in calls_in(page):
        arguments, _, ends = call["arguments"].partition("  # exit ")
        done = here(*shlex.split(arguments), stdin=call["piped"])
        hint = re.search(r"(?m)^(resume|decide on a terminal) with:(.*\n)*", done.err)
        seen = done.err[: hint.start()] + done.out + hint[0] if hint else done.err + done.out

        assert done.code == int(ends or 0), f"{call[0]}\n{seen}"
        assert re.fullmatch(pattern(call["shown"]), seen), f"{call[0]}\n{seen}"


def test_every_command_is_on_a_page():
    shown = {call["arguments"].split()[0] for page in PAGES for call in calls_in(page)}

    assert set(COMMANDS) == shown - {"--version", "--help"}


def test_the_page_has_every_code():
    codes = {int(code) for row in re.findall(r"^\| ([\d, ]+) \|", PAGE, re.MULTILINE) for code in row.split(",")}

    assert codes == {int(code) for code in ExitCode}
