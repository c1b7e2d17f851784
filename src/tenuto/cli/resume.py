"""`tenuto resume`: go on with a session."""

from __future__ import annotations

from typing import Unpack

import click

from tenuto.cli.options import Given, asking_options

__all__ = ["command"]

_EXAMPLES = """\b
Examples:
  tenuto resume                       the last one: do what is left to do
  tenuto resume last "And Bergen?"
  tenuto resume 01m7q2                by how its id begins
  tenuto resume ~1 --approve auto     the one before the last; allow what waits
  tenuto resume 01m7q2 --take         although another process has it
"""


@click.command("resume", epilog=_EXAMPLES)
@click.argument("session", default="last")
@click.argument("prompt", required=False)
@click.option("--take", is_flag=True, help="Take the session from a process that has it; that one stops.")
@asking_options
def command(**given: Unpack[Given]) -> int:
    """Go on with SESSION: an id, how one begins, a name, last, or ~N for the N-th before the last.

    With PROMPT (or something piped in) it is said; without, what is left to do is done: a question without an answer is
    asked again, calls that wait are run or asked about. Where nothing is left to do, the last answer is printed.

    The model, the system prompt and the parameters are those the session was begun with, and so are the builtin tools,
    which work in the current folder unless --root names another. Your own tools have to be given again, with -T.
    """
    from tenuto.cli.asking import conduct
    from tenuto.cli.saying import said

    given["session"] = given.get("session") or "last"
    return conduct(given, said(given.get("prompt"), quiet=given.get("quiet", False)))
