"""`tenuto sim`: the simulator as a server, for other programs and other libraries."""

from __future__ import annotations

from typing import TypedDict, Unpack

import click

from tenuto import settings

__all__ = ["command"]

_EXAMPLES = """\b
Examples:
  tenuto sim --port 8700
  tenuto sim --pace 20ms                   # a pause between the frames of a stream
  tenuto sim --script script.json          # what the model says, instead of making it up
  tenuto sim --rules | less                # the rules that it enforces

\b
A script is JSON, one list of steps for each answer of a conversation:
  {"turns": [[{"do": "think", "text": "hm"},
              {"do": "call", "name": "weather", "args": {"city": "Oslo"}}],
             [{"do": "say", "text": "12 degrees"}]]}
"""


class _Given(TypedDict):
    port: int
    seed: str | None
    pace: str | None
    burst: int
    script: str | None
    quiet: bool
    rules: bool


@click.command(epilog=_EXAMPLES)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=0,
    metavar="N",
    help="The port on 127.0.0.1.  [default: a free one]",
)
@click.option("--seed", metavar="TEXT", help="What all chance comes from.  [default: TENUTO_SIM_SEED, or tenuto]")
@click.option(
    "--pace",
    metavar="TIME",
    help="The pause between the frames of a stream: 20ms, 0.02s.  [default: TENUTO_SIM_PACE, or none]",
)
@click.option(
    "--burst", type=click.IntRange(min=1), default=16, metavar="N", show_default=True, help="Frames in one write."
)
@click.option(
    "--script", metavar="FILE", help="What the model says, as JSON.  [default: TENUTO_SIM_SCRIPT, or nothing]"
)
@click.option("-q", "--quiet", is_flag=True, help="No line for each request on stderr.")
@click.option("--rules", is_flag=True, help="Print the rules as a page of Markdown, and end.")
def command(**given: Unpack[_Given]) -> int:
    """Serve a provider on this machine that speaks four dialects and is as strict as the real ones, with no key.

    It says where it listens, and which variables make other programs ask it; Ctrl-C ends it. Models are styles:
    sim/anthropic, or sim/anthropic/claude-opus-4-6 with that model's own rules; other clients leave the sim/ off. Commands
    of tenuto need no server: they start their own.

    GET /_sim/log shows what was asked and answered, POST /_sim/script sets another script.
    """
    from tenuto.sim.serving import Served, Unusable, serve

    if given["rules"]:
        from tenuto.cli.screen import write_text
        from tenuto.sim.page import rules_page

        write_text(rules_page())
        return 0
    seed = given["seed"] or settings.getenv("TENUTO_SIM_SEED")
    pace = given["pace"] or settings.getenv("TENUTO_SIM_PACE")
    script = given["script"] or settings.getenv("TENUTO_SIM_SCRIPT")
    try:
        serve(Served(given["port"], seed, pace, given["burst"], script, given["quiet"]))
    except Unusable as exc:
        raise click.UsageError(str(exc)) from None
    return 0
