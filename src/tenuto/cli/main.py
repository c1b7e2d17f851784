"""The command itself: finds the verb, loads its file, and makes of whatever goes wrong one message and an exit code.

What is not needed to say what there is, is not loaded: `--help` and `--version` cost little more than click.
"""

from __future__ import annotations

import difflib
import importlib
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import click

import tenuto
from tenuto.cli.pipe import Unread, left

__all__ = ["COMMANDS", "main"]

COMMANDS = {
    "run": ("tenuto.cli.run", "Say something to a model, with tools if you like; the session is kept."),
    "resume": ("tenuto.cli.resume", "Go on with a session, wherever it stopped or was killed."),
    "sessions": ("tenuto.cli.sessions", "List the sessions that are kept."),
    "audit": ("tenuto.cli.audit", "Say what a provider would refuse of a session, before it is asked."),
    "handover": ("tenuto.cli.handover", "Have a session go on with another model."),
    "show": ("tenuto.cli.show", "Show what was said and done in a session."),
}
"""Each verb: the file it is in, which is loaded when it is called, and what it does."""

_EXAMPLES = """\b
Examples:
  tenuto run "What is 27 * 453?" -m sim/anthropic
  git diff | tenuto run "Write the commit message" -q
  tenuto run "Tidy up the notes" -T read_file -T edit_file
  tenuto resume
  tenuto sessions

\b
Exit codes:
  0 done               5 a limit was reached
  1 the run failed     6 a call waits for approval
  2 usage, settings    7 the session or the store cannot be used
  3 no key, bad key    8 audit has findings; answer without its schema
  4 provider is busy   129, 130, 143 stopped by a signal; saved
"""


class _Verbs(click.Group):
    """Loads a verb's file when the verb is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        del ctx
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        del ctx
        if cmd_name not in COMMANDS:
            return None
        found = importlib.import_module(COMMANDS[cmd_name][0]).command
        assert isinstance(found, click.Command)
        return found

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        """Find the verb; say which ones are spelt alike if there is none."""
        name = args[0]
        if name not in COMMANDS and not name.startswith("-"):
            near = difflib.get_close_matches(name, COMMANDS, n=2)
            hint = f"did you mean {' or '.join(near)}?" if near else f"there are {', '.join(COMMANDS)}"
            raise click.UsageError(f"there is no command {name!r}: {hint}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the verbs from the table: none of their files is loaded."""
        del ctx
        with formatter.section("Commands"):
            formatter.write_dl([(name, says) for name, (_, says) in COMMANDS.items()])


@click.group(cls=_Verbs, epilog=_EXAMPLES, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(tenuto.__version__, "-V", "--version", prog_name="tenuto")
def _tenuto() -> None:
    """Talk to any language model, and keep what was said so that nothing is lost.

    A session can be killed at any moment and resumed. `tenuto COMMAND --help` says more about each command. No key is
    needed for the models of the simulator, such as sim/anthropic.
    """


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return its exit code. Nothing is raised, and no traceback shown unless `TENUTO_DEBUG` is set."""
    try:
        code = _called(arguments)
        if sys.stdout is not None and not sys.stdout.closed:
            sys.stdout.flush()  # now, and not when it is too late to say anything
    except (BrokenPipeError, Unread):
        code = left()
    return code


def _called(arguments: Sequence[str] | None) -> int:
    try:
        done = _tenuto.main(args=arguments, prog_name="tenuto", standalone_mode=False)
    except click.ClickException as exc:
        return _misused(exc)
    except click.exceptions.Exit as exc:
        return exc.exit_code
    except (KeyboardInterrupt, click.Abort):  # before or after the run: while it is under way, it is written down
        return 130
    except Unread:
        raise
    except Exception as exc:
        from tenuto.cli.exits import explained
        from tenuto.cli.screen import complain

        told = explained(exc)
        complain(told, exc)
        raise SystemExit(int(told.code)) from exc  # the interpreter shows nothing more of it
    return done if isinstance(done, int) else 0


def _misused(exc: click.ClickException) -> int:
    """What was typed cannot be meant: say what is wrong, and where to look."""
    from tenuto.cli.escaping import shown

    context = getattr(exc, "ctx", None)
    path = context.command_path if isinstance(context, click.Context) else "tenuto"
    message = exc.format_message()
    if isinstance(exc, click.exceptions.NoArgsIsHelpError):
        click.echo(message, err=True)
        return 2
    with suppress(OSError):
        click.echo(f"error: {shown(message)}\n  see: {path} --help", err=True)
    return 2
