"""`tenuto chat`: talk with a model, line by line."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Unpack

import click

from tenuto.cli.options import AskingCommand, Given, asking_options, model_options, session_options

__all__ = ["command"]

_EXAMPLES = """\b
Examples:
  tenuto chat -m sim/anthropic
  tenuto chat -c                       # go on with the last session
  tenuto chat 01m7q2 -T read_file      # go on with one, with a tool
  tenuto chat -s "Answer in French." -n french
  printf 'Hi!\\n/usage\\n' | tenuto chat  each line is said, or obeyed

\b
In a chat:
  /help lists commands: /model, /fork, /undo, /tools, /attach, ...
  Ctrl-C stops the answer; Ctrl-D, or /exit, leaves.
"""


def _named(command: Callable[..., int]) -> Callable[..., int]:
    """Have SESSION mean the same as `--session`."""

    @functools.wraps(command)
    def called(which: str | None, **given: Any) -> int:
        if which and (given.get("session") or given.get("resume_last")):
            raise click.UsageError("SESSION says which one goes on, and so do -c and --session: give one of them")
        if which and given.get("ephemeral"):
            raise click.UsageError("--ephemeral keeps nothing, and SESSION goes on with what is kept: give one of them")
        return command(**({**given, "session": which} if which else given))

    return called


@click.command("chat", cls=AskingCommand, epilog=_EXAMPLES)
@click.argument("which", metavar="[SESSION]", required=False)
@session_options
@model_options
@_named
@asking_options
def command(**given: Unpack[Given]) -> int:
    """Talk with a model: what you type is said, and answered, and so on; all of it is one session.

    With SESSION (an id, how one begins, a name, last, or ~N for the N-th before the last), or with -c, that one goes on:
    its last exchange is shown, and what it left undone is done first. Lines can be edited and are remembered; one that
    ends in a backslash goes on, a line of three double quotes begins a block that ends with another, and a text that is
    pasted is one message. What begins with a slash is a command.

    Without a terminal each line of stdin is a message or a command; the answers are on stdout, everything else is on
    stderr, and the exit code is that of the last turn that failed.
    """
    from tenuto.cli.chatting import converse

    return converse(given)
