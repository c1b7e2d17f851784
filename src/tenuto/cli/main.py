"""The command itself: finds the verb, loads its file, and makes of whatever goes wrong one message and an exit code.

What is not needed to say what there is, is not loaded: `--help` and `--version` cost little more than click.
"""

from __future__ import annotations

import gc
import importlib
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import click

import tenuto
from tenuto.cli.pipe import Unread, left, settled

__all__ = ["COMMANDS", "main"]

_VERBS = (
    ("tenuto.cli.run", "Say something to a model, with tools if you like; the session is kept."),
    ("tenuto.cli.chat", "Talk with a model, line by line."),
    ("tenuto.cli.resume", "Go on with a session, wherever it stopped or was killed."),
    ("tenuto.cli.fork", "Branch a session off, and leave it as it is."),
    ("tenuto.cli.sessions", "List, search, name, put away, remove and check the sessions that are kept."),
    ("tenuto.cli.show", "Show what was said and done in a session."),
    ("tenuto.cli.export", "Write a session as Markdown, JSONL, or messages of the OpenAI shape."),
    ("tenuto.cli.import_", "Bring an exported session in."),
    ("tenuto.cli.audit", "Say what a provider would refuse of a session, before it is asked."),
    ("tenuto.cli.handover", "Have a session go on with another model."),
    ("tenuto.cli.models", "List models: what they take, and what they cost."),
    ("tenuto.cli.providers", "List providers, and for which of them there is a key."),
    ("tenuto.cli.embed", "Embed files or lines, and find what is alike."),
    ("tenuto.cli.tools", "List the tools that a model may be given."),
    ("tenuto.cli.keys", "Keep API keys in a file that only you can read."),
    ("tenuto.cli.config", "Show and change what is set once for all."),
    ("tenuto.cli.sim", "Serve the simulator: every dialect, the real rules, no key."),
    ("tenuto.cli.doctor", "Look whether everything here is as it should be."),
    ("tenuto.cli.completion", "Print what a shell needs to complete commands."),
)
COMMANDS = {module.rpartition(".")[2].rstrip("_"): (module, says) for module, says in _VERBS}
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
  1 the run failed     6 a call waits for approval, or was denied
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
        if cmd_name not in COMMANDS:
            return None
        found = importlib.import_module(COMMANDS[cmd_name][0]).command
        assert isinstance(found, click.Command)
        if ctx.resilient_parsing:  # a shell asks what may be typed
            from tenuto.cli.completing import fitted

            return fitted(found, cmd_name)
        return found

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[Any]:
        """Name the verbs from the table: none of their files is loaded."""
        from tenuto.cli.completing import named

        found = named({name: says for name, (_, says) in COMMANDS.items()}, incomplete)
        return [*found, *click.Command.shell_complete(self, ctx, incomplete)]

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        """Find the verb; say which ones are spelt alike if there is none."""
        name = args[0]
        if name not in COMMANDS and not name.startswith("-"):
            import difflib

            near = difflib.get_close_matches(name, COMMANDS, n=2)
            hint = f"did you mean {' or '.join(near)}?" if near else f"there are {', '.join(COMMANDS)}"
            raise click.UsageError(f"there is no command {name!r}: {hint}", ctx)
        found = super().resolve_command(ctx, args)
        if isinstance(found[1], click.Command) and not ctx.resilient_parsing and not _asks_for_help(ctx, args):
            from tenuto.cli.configuring import default_map

            ctx.default_map = {name: default_map(found[1], name, ctx.params.get("profile"))}
        return found

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the verbs from the table: none of their files is loaded."""
        del ctx
        with formatter.section("Commands"):
            formatter.write_dl([(name, says) for name, (_, says) in COMMANDS.items()])


def _asks_for_help(ctx: click.Context, args: list[str]) -> bool:
    """Whoever wants help gets it, whatever is set and however wrong that is."""
    options = args[: args.index("--")] if "--" in args else args
    return any(option in ctx.help_option_names for option in options)


def _profiles(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[Any]:
    from tenuto.cli.completing import values

    return values(param.name or "", ctx, incomplete)


@click.group(cls=_Verbs, epilog=_EXAMPLES, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(tenuto.__version__, "-V", "--version", prog_name="tenuto")
@click.option(
    "--profile",
    metavar="NAME",
    help='The profile of the configuration that holds; "" for none.  [default: TENUTO_PROFILE]',
    shell_complete=_profiles,
)
def _tenuto(profile: str | None) -> None:
    """Talk to any language model, and keep what was said so that nothing is lost.

    A session can be killed at any moment and resumed. `tenuto COMMAND --help` says more about each command. No key is
    needed for the models of the simulator, such as sim/anthropic.
    """
    del profile  # it is looked at when the verb is found, before the verb's own options are


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return its exit code. Nothing is raised, and no traceback shown unless `TENUTO_DEBUG` is set."""
    if arguments is None:  # it is all that this process does: what is loaded by now is never looked through for garbage
        gc.freeze()
    try:
        code = _called(arguments)
    except (BrokenPipeError, Unread):
        code = left()
    finally:
        settled()
    return code


def _called(arguments: Sequence[str] | None) -> int:
    out = sys.stdout
    try:
        done = _tenuto.main(args=arguments, prog_name="tenuto", standalone_mode=False)
        if sys.stdout is not None and not sys.stdout.closed:
            sys.stdout.flush()  # now, and not when it is too late to say anything
    except click.ClickException as exc:
        return _misused(exc)
    except click.exceptions.Exit as exc:
        return exc.exit_code
    except (KeyboardInterrupt, click.Abort):  # before or after the run: while it is under way, it is written down
        return 130
    except (BrokenPipeError, Unread):
        raise
    except SystemExit:
        if sys.stdout is not out:  # nobody reads click's own help: it puts something else in its place then
            raise Unread from None
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
    if isinstance(context, click.Context) and context.resilient_parsing:  # who presses a key did not ask for an error
        return 1
    path = context.command_path if isinstance(context, click.Context) else "tenuto"
    message = exc.format_message()
    if isinstance(exc, click.exceptions.NoArgsIsHelpError):
        click.echo(message, err=True)
        return 2
    with suppress(OSError):
        hint = getattr(exc, "hint", "") or f"see: {path} --help"
        click.echo(f"error: {shown(message)}\n  {shown(hint)}", err=True)
    return 2
