"""`tenuto sim`: serve the simulator."""

from __future__ import annotations

from typing import Any

import click

from tenuto.cli.options import WholeNumber, flag, option
from tenuto.cli.terminal.output import print_text

_EXAMPLES = """\b
Examples:
  tenuto sim --port 8700
  tenuto sim --pace 20ms                   # delay between stream chunks
"""


@click.command(epilog=_EXAMPLES)
@option("--port", type=WholeNumber(0, 65535), default=0, metavar="N", help="Port.  [default: a free one]")
@option("--seed", metavar="TEXT", help="Random seed.  [default: TENUTO_SIM_SEED, or tenuto]")
@option("--pace", metavar="TIME", help="Delay between stream chunks: 20ms, 0.02s.  [default: TENUTO_SIM_PACE, or none]")
@option("--burst", type=WholeNumber(min=1), default=16, metavar="N", show_default=True, help="Frames in one write.")
@option("--script", metavar="FILE", help="Scripted replies (JSON, docs/simulator.md).  [default: TENUTO_SIM_SCRIPT]")
@flag("-q", "--quiet", help="No line for each request on stderr.")
@flag("--rules", help="Print the rules as Markdown and exit.")
def command(rules: bool, **values: Any) -> None:
    """Serve the simulator on 127.0.0.1: all API dialects, real validation, no key.

    Prints its address and the variables for other clients. Model names pick a dialect: sim/anthropic, or
    sim/anthropic/claude-opus-5-5 with that model's rules; omit sim/ in other clients. Commands of tenuto start their own
    simulator.

    GET /_sim/log lists requests and responses, POST /_sim/script sets a script.
    """
    from tenuto.sim.__main__ import UsageError, serve

    if rules:
        from tenuto.rules.page import rules_page

        print_text(rules_page())
        return
    try:
        serve(**values)
    except UsageError as exc:
        raise click.UsageError(str(exc)) from None
