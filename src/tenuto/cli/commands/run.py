"""`tenuto run`: send a prompt and print the answer."""

from __future__ import annotations

import click

from tenuto.cli.options import GroupedHelpCommand, RunOptions, anywhere_option, io_options, run_options, session_options

_EXAMPLES = """\b
Examples:
  git diff | tenuto run "Write the commit message" -q
  tenuto run "What does this project do?" -T list_files -T read_file
"""


@click.command("run", cls=GroupedHelpCommand, epilog=_EXAMPLES)
@click.argument("prompt", required=False)
@session_options
@anywhere_option
@run_options
@io_options
def command(options: RunOptions) -> int:
    """Send PROMPT to a model, run the tools that it calls, and print its answer.

    PROMPT defaults to stdin (or -). With both, stdin is appended to PROMPT. The answer goes to stdout, everything else to
    stderr. Continue later with tenuto resume.

    Without -m: the configured model, else the first provider with a key; with no API key, the built-in simulator answers.
    """
    from tenuto.cli.session.prompt_input import read_prompt
    from tenuto.cli.session.run import run_once

    message = read_prompt(options.prompt, options.attach)
    if message is None:
        raise click.UsageError('no prompt: pass one (tenuto run "...") or pipe it in')
    return run_once(options, message)
