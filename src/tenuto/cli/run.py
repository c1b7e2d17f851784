"""`tenuto run`: say something, and see it answered."""

from __future__ import annotations

from typing import Unpack

import click

from tenuto import settings
from tenuto.cli.options import Given, asking_options

__all__ = ["command"]

_EFFORTS = ["none", "minimal", "low", "medium", "high", "xhigh", "max"]
_EXAMPLES = """\b
Examples:
  tenuto run "What is 27 * 453?" -m sim/anthropic
  git diff | tenuto run "Write the commit message" -q
  tenuto run "What does this project do?" -T list_files -T read_file
  tenuto run "Run the tests and mend what fails" -T shell -T edit_file
  tenuto run "Weather in Oslo?" -T my_tools:weather --json
"""


@click.command("run", epilog=_EXAMPLES)
@click.argument("prompt", required=False)
@click.option("-m", "--model", metavar="MODEL", help="Whom to ask: provider/model.  [default: TENUTO_MODEL]")
@click.option("-s", "--system", metavar="TEXT", help="What the model is told before anything else.")
@click.option("--effort", type=click.Choice(_EFFORTS), help="How much the model is to think.")
@click.option("--max-tokens", type=click.IntRange(min=1), metavar="N", help="How long one reply may be.")
@asking_options
def command(**given: Unpack[Given]) -> int:
    """Say PROMPT to a model, run the tools that it calls, and print its answer.

    Without PROMPT, or with -, it is read from stdin; with one, what is piped in goes along. The answer is on stdout,
    everything else on stderr. The session is kept: whatever happens, tenuto resume goes on with it.
    """
    given["model"] = given.get("model") or settings.value("TENUTO_MODEL")
    if not given["model"]:
        raise click.UsageError(
            "no model is named: give -m provider/model or set TENUTO_MODEL; -m sim/anthropic works without a key"
        )
    from tenuto.cli.asking import conduct
    from tenuto.cli.saying import said

    words = said(given.get("prompt"), quiet=given.get("quiet", False))
    if words is None:
        raise click.UsageError('nothing is said: give a prompt (tenuto run "...") or pipe one in')
    return conduct(given, words)
