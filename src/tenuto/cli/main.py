"""The command line: find the subcommand, import its module, turn errors into a message and an exit code.

A command's module is imported only when that command runs: `--help` and `--version` cost little more than click.
"""

from __future__ import annotations

import errno
import gc
import importlib
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import click
from click.core import ParameterSource

import tenuto
from tenuto.cli.complete import complete_profile
from tenuto.cli.config import default_map
from tenuto.cli.terminal.output import BrokenOutput, discard_output, flush_output, print_error
from tenuto.cli.terminal.text import closest_names, escape_control, similar_names

_COMMANDS = """
Talk
run        Send a prompt, run tools, print the answer.
chat       Start an interactive chat.
resume     Continue a session, even one that was killed.

Sessions
sessions   List, search and manage sessions.
compact    Summarize the older messages of a session.
show       Show a session's transcript.
fork       Copy a session to a new branch.
handover   Switch a session to another model.
audit      Check whether a provider would accept a session, without sending it.
export     Export sessions as JSONL, Markdown or OpenAI messages.
import     Import exported sessions.
store      Check, back up and clean up the session database.

Models
models     List models with limits and prices.
providers  List providers and whether a key is set.
tools      List the tools a model can use.
embed      Embed files and search them by meaning.
sim        Serve the simulator: all API dialects, real validation, no key.

Setup
keys       Store API keys (file mode 0600).
config     View and edit settings.
doctor     Check the installation.
completion Print a shell completion script.
"""
_SECTIONS = {
    lines[0]: dict(line.split(maxsplit=1) for line in lines[1:])
    for lines in (section.split("\n") for section in _COMMANDS.strip().split("\n\n"))
}
COMMANDS = {name: text for commands in _SECTIONS.values() for name, text in commands.items()}

_EXAMPLES = """\b
Examples:
  tenuto run "Hello" -m sim/anthropic
  git diff | tenuto run "Write the commit message" -q

\b
Exit codes:
  0 done                        5 limit reached or answer truncated
  1 the run failed              6 approval pending or denied
  2 usage or settings           7 session or store unusable
  3 API key missing or rejected 8 audit findings or schema mismatch
  4 rate limited or overloaded  129, 130, 143 stopped by signal; session saved
"""


class CommandGroup(click.Group):
    """A group that suggests names for an unknown subcommand, and passes its options on as defaults."""

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        name, names = args[0], self.list_commands(ctx)
        if name not in names and not name.startswith("-"):
            raise click.UsageError(f"unknown command {name!r}; {closest_names(name, names)}", ctx)
        own = {key for key in ctx.params if ctx.get_parameter_source(key) is not ParameterSource.DEFAULT}
        configured = (ctx.default_map or {}).get(name) or {}
        ctx.default_map = {name: {**configured, **{key: ctx.params[key] for key in own}}}
        return super().resolve_command(ctx, args)


class LazyGroup(CommandGroup):
    """The main command, which imports the module of a subcommand when it is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        return importlib.import_module(module_of(cmd_name)).command if cmd_name in COMMANDS else None

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[Any]:
        """Complete subcommands from the table, without importing them."""
        from click.shell_completion import CompletionItem

        names = [CompletionItem(name, help=text) for name, text in COMMANDS.items() if name.startswith(incomplete)]
        return [*names, *click.Command.shell_complete(self, ctx, incomplete)]

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if args[:1] == ["help"] or not (args or ctx.resilient_parsing):
            args = [*args[1:], "--help"]
        elif args[:1] == ["version"]:
            args = ["--version"]
        return super().parse_args(ctx, _move_profile_first(args))

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        resolved = super().resolve_command(ctx, args)
        needs_help = not set(ctx.help_option_names).isdisjoint(_options(args))  # even if the config file is invalid
        if isinstance(resolved[1], click.Command) and not ctx.resilient_parsing and not needs_help:
            ctx.default_map = {args[0]: default_map(resolved[1], args[0], ctx.params.get("profile"))}
        return resolved

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for title, commands in _SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl(list(commands.items()))


def module_of(name: str) -> str:
    """Return the module of a subcommand: `tenuto.cli.commands.import_` for `import`."""
    return f"tenuto.cli.commands.{name}{'_' if name == 'import' else ''}"


def _options(args: list[str]) -> list[str]:
    return args[: args.index("--")] if "--" in args else args


def _move_profile_first(args: list[str]) -> list[str]:
    """Accept `--profile` after the subcommand too."""
    for at, arg in enumerate(_options(args)):
        if arg == "--profile" or arg.startswith("--profile="):
            end = at + 1 + (arg == "--profile")
            return [*args[at:end], *args[:at], *args[end:]]
    return args


@click.group(cls=LazyGroup, epilog=_EXAMPLES, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(tenuto.__version__, "-V", "--version", prog_name="tenuto")
@click.option(
    "--profile",
    metavar="NAME",
    help='Config profile to use ("" for none).  [default: TENUTO_PROFILE]',
    shell_complete=complete_profile,
)
def _tenuto(profile: str | None) -> None:  # LazyGroup.resolve_command reads it, before the options of the subcommand
    """Chat with any LLM. Every session is saved and can be resumed, even after a crash.

    Run `tenuto COMMAND --help` for details. No key needed for simulator models (sim/anthropic).
    """


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code. Tracebacks are shown only with `TENUTO_DEBUG`."""
    if arguments is None:  # the whole process: modules loaded by now are never garbage
        gc.freeze()
    try:
        return _run_command(arguments)
    except (BrokenPipeError, BrokenOutput):
        discard_output(sys.stdout)
        return 141
    finally:
        flush_output()


def _run_command(arguments: Sequence[str] | None) -> int:
    out = sys.stdout
    try:
        code = _tenuto.main(args=arguments, prog_name="tenuto", standalone_mode=False)
        if sys.stdout is not None and not sys.stdout.closed:
            sys.stdout.flush()  # at exit, an error could no longer be reported
    except click.ClickException as exc:
        return _report_usage_error(exc, sys.argv[1:] if arguments is None else arguments)
    except click.exceptions.Exit as exc:
        return exc.exit_code
    except (KeyboardInterrupt, click.Abort):  # before or after a run, which handles signals itself
        return 130
    except (BrokenPipeError, BrokenOutput):
        raise
    except SystemExit:
        if sys.stdout is not out:  # click replaces stdout if its help goes to a closed pipe
            raise BrokenOutput from None
        raise
    except Exception as exc:
        from tenuto.cli.errors import ExitCode, explain_error

        print_error(explanation := explain_error(exc), exc)
        is_terminal_gone = isinstance(exc, OSError) and exc.errno == errno.EIO and exc.filename is None
        code = ExitCode.HUNG_UP if is_terminal_gone else explanation.code
        raise SystemExit(int(code)) from exc  # the interpreter prints no traceback for it
    return code if isinstance(code, int) else 0


def _report_usage_error(exc: click.ClickException, arguments: Sequence[str]) -> int:
    context = getattr(exc, "ctx", None)
    if isinstance(context, click.Context) and context.resilient_parsing:  # shell completion prints no errors
        return 1
    path = context.command_path if isinstance(context, click.Context) else "tenuto"
    hint = getattr(exc, "hint", "") or f"see: {path} --help"
    if isinstance(exc, click.NoSuchOption):  # click suggests any option
        exc = click.NoSuchOption(
            exc.option_name, None, similar_names(exc.option_name, exc.possibilities or ()), exc.ctx
        )
    if isinstance(exc, click.NoSuchOption) and any(
        " " in argument and argument.startswith(exc.option_name) for argument in arguments
    ):
        hint = "put -- before a prompt that starts with -"
    with suppress(OSError):
        click.echo(f"error: {escape_control(exc.format_message())}\n  {escape_control(hint)}", err=True)
    return 2
