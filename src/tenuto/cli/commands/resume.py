"""`tenuto resume`: continue a session."""

from __future__ import annotations

import dataclasses
import shlex

import click

from tenuto.cli.options import GroupedHelpCommand, RunOptions, io_options, resume_options, run_options, session_argument
from tenuto.errors import SessionNotFound

_EXAMPLES = """\b
Examples:
  tenuto resume last "And Bergen?"
  tenuto resume 01m7q2 --takeover     # take over from another process
"""


@click.command("resume", cls=GroupedHelpCommand, epilog=_EXAMPLES)
@session_argument(default="last")
@click.argument("prompt", required=False)
@resume_options
@run_options
@io_options
def command(options: RunOptions) -> int:
    """Continue SESSION: ID or unique prefix, name, `last`, or `~N` (N sessions ago).

    Without PROMPT, finish pending work: retry the last request, run or ask about waiting tool calls. If nothing is
    pending, print the last answer.

    Model, system prompt, parameters and built-in tools come from the session. Pass your own tools again with -T.
    """
    from tenuto.cli.session.prompt_input import read_prompt
    from tenuto.cli.session.run import run_once

    options = dataclasses.replace(options, session=options.session or "last")
    message = read_prompt(options.prompt, options.attach)
    try:
        return run_once(options, message)
    except SessionNotFound as exc:
        if " " in options.session and message is None:
            exc.add_note(f"did you mean: tenuto run -c {shlex.quote(options.session)}")
        raise
