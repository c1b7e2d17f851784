"""`tenuto run`: say something, and see it answered."""

from __future__ import annotations

from typing import Unpack

import click

from tenuto.cli.options import (
    AskingCommand,
    Given,
    asking_options,
    input_options,
    model_options,
    printing_options,
    session_options,
)

__all__ = ["command"]

_EXAMPLES = """\b
Examples:
  tenuto run "What is 27 * 453?" -m sim/anthropic
  git diff | tenuto run "Write the commit message" -q
  tenuto run "What is on it?" -a photo.png -m openai/gpt-5.2:low
  tenuto run "What does this project do?" -T list_files -T read_file
  tenuto run "Mend the tests" -T shell -T edit_file --allow 'shell(pytest *)'
  tenuto run "Weather in Oslo?" -T my_tools:weather --schema weather.json
  tenuto run -c "And Bergen?"
"""


@click.command("run", cls=AskingCommand, epilog=_EXAMPLES)
@click.argument("prompt", required=False)
@session_options
@model_options
@input_options
@asking_options
@printing_options
def command(**given: Unpack[Given]) -> int:
    """Say PROMPT to a model, run the tools that it calls, and print its answer.

    Without PROMPT, or with -, it is read from stdin; with one, what is piped in goes along. The answer is on stdout,
    everything else on stderr. The session is kept: whatever happens, tenuto resume goes on with it.

    Without -m the model is the one that is configured, or that of a provider for which there is a key; without any, the
    simulator answers.
    """
    from tenuto.cli.asking import conduct
    from tenuto.cli.saying import said

    words = said(given.get("prompt"), given.get("attach", ()), quiet=given.get("quiet", False))
    if words is None:
        raise click.UsageError('nothing is said: give a prompt (tenuto run "...") or pipe one in')
    return conduct(given, words)
