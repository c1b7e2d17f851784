"""What docs/command.md shows is what happens."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

from tenuto.cli.exits import Exit
from tenuto.cli.main import COMMANDS

PAGE = (Path(__file__).parents[2] / "docs" / "command.md").read_text("utf-8")
CALL = re.compile(
    r"^\$ (?:echo \"(?P<piped>.*?)\" \| )?tenuto (?P<arguments>.*)\n(?P<shown>(?:(?!\$ ).*\n)*)", re.MULTILINE
)


def pattern(shown):
    """What stands on the page, as a pattern: three dots stand for anything; on a line of their own, for lines."""
    lines = [r"(?:.*\n)*?" if line == "..." else _line(line) for line in shown.splitlines()]
    return "".join(lines)


def _line(line):
    return ".*".join(map(re.escape, line.split("..."))) + r"\n"


def test_every_call_on_the_page_does_what_it_shows(here, tmp_path, monkeypatch):
    """In their order, in one folder: both streams, those of stderr before the answer."""
    for file, text in re.findall(r"```python\n# (\S+)\n(.*?)```", PAGE, re.DOTALL):
        (tmp_path / file).write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delenv("TENUTO_MODEL")
    calls = [found for block in re.findall(r"```console\n(.*?)```", PAGE, re.DOTALL) for found in CALL.finditer(block)]
    for call in calls:
        done = here(*shlex.split(call["arguments"]), stdin=call["piped"])
        hint = re.search(r"(?m)^(resume|decide on a terminal) with:(.*\n)*", done.err)
        seen = done.err[: hint.start()] + done.out + hint[0] if hint else done.err + done.out

        assert done.code == (6 if "waits for approval" in call["shown"] else 0), call[0]
        assert re.fullmatch(pattern(call["shown"]), seen), f"{call[0]}\n{seen}"

    assert set(COMMANDS) == {call["arguments"].split()[0] for call in calls}


def test_the_page_has_every_command_and_every_code():
    codes = {int(code) for row in re.findall(r"^\| ([\d, ]+) \|", PAGE, re.MULTILINE) for code in row.split(",")}

    assert codes == {int(code) for code in Exit}
