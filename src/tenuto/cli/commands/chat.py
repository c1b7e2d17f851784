"""`tenuto chat`: an interactive chat."""

from __future__ import annotations

import click

from tenuto.cli.options import GroupedHelpCommand, RunOptions, run_options, session_argument, session_options

_EXAMPLES = """\b
Examples:
  tenuto chat -c                       # continue the last session
  printf 'Hi!\\n/usage\\n' | tenuto chat  each line is a message or a command

\b
In a chat:
  /help lists commands: /model, /fork, /undo, /tools, /attach, ...
  Ctrl-C stops the answer; Ctrl-D or /exit quits.
"""


@click.command("chat", cls=GroupedHelpCommand, epilog=_EXAMPLES)
@session_argument("which", metavar="[SESSION]", required=False)
@session_options
@run_options
def command(options: RunOptions) -> int:
    """Start an interactive chat. Lines starting with / are commands.

    Continues SESSION (ID or unique prefix, name, `last`, or `~N`): shows the last exchange and finishes pending work
    first. Enter sends, Alt-Enter inserts a newline, pasted text is one message; history is saved.

    Without a terminal each line of stdin is a message or a command; a backslash at its end continues it, and lines between
    two lines of three double quotes are one message. Answers go to stdout, everything else to stderr; exits with the code
    of the last failed turn.
    """
    from tenuto.cli.session.chat_start import run_chat

    return run_chat(options)
