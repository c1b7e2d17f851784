"""`tenuto resume`: go on with a session."""

from __future__ import annotations

from typing import Unpack

import click

from tenuto.cli.options import (
    AskingCommand,
    Given,
    asking_options,
    fixed_options,
    input_options,
    printing_options,
)

__all__ = ["command"]

_EXAMPLES = """\b
Examples:
  tenuto resume                       # the last one: do what is left to do
  tenuto resume last "And Bergen?"
  tenuto resume 01m7q2                # by how its id begins
  tenuto resume ~1 --approve auto     # the one before the last; allow what waits
  tenuto resume last -m openai/gpt-5.2    # hand it over, then go on
  tenuto resume 01m7q2 --take         # although another process has it
"""


@click.command("resume", cls=AskingCommand, epilog=_EXAMPLES)
@click.argument("session", default="last")
@click.argument("prompt", required=False)
@fixed_options
@input_options
@asking_options
@printing_options
def command(**given: Unpack[Given]) -> int:
    """Go on with SESSION: an id, how one begins, a name, last, or ~N for the N-th before the last.

    With PROMPT (or something piped in) it is said; without, what is left to do is done: a question without an answer is
    asked again, calls that wait are run or asked about. Where nothing is left to do, the last answer is printed.

    The system prompt and the parameters are those the session was begun with, and so is the model, unless -m names
    another. So are the builtin tools, which work in the current folder unless --root names another. Your own tools have
    to be given again, with -T.
    """
    from tenuto.cli.asking import conduct
    from tenuto.cli.saying import said

    given["session"] = given.get("session") or "last"
    return conduct(given, said(given.get("prompt"), given.get("attach", ()), quiet=given.get("quiet", False)))
