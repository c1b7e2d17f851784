"""`python -m tenuto.sim`: the simulator as a server of its own."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from tenuto import settings
from tenuto.sim.serving import Served, Unusable, serve

__all__ = ["main"]

_EXAMPLES = """\
examples:
  python -m tenuto.sim --port 8700
  python -m tenuto.sim --pace 20ms                 a pause between the frames of a stream
  python -m tenuto.sim --script script.json        what the model says, instead of making it up
  python -m tenuto.sim --rules > docs/rules.md     the rules that it enforces

a script is JSON, one list of steps for each answer of a conversation:
  {"turns": [[{"do": "think", "text": "hm"}, {"do": "call", "name": "weather", "args": {"city": "Oslo"}}],
             [{"do": "say", "text": "12 degrees"}]]}

models are styles, sim/anthropic or sim/anthropic/claude-opus-4-6; other clients leave the sim/ off.
GET /_sim/log shows what was asked and answered, POST /_sim/script sets another script, GET /_sim/rules lists the rules
that were put to the test. TENUTO_SIM_SEED, TENUTO_SIM_PACE and TENUTO_SIM_SCRIPT stand in for options that are not given.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run until Ctrl-C. Return 0, or 2 if something that was given cannot be used."""
    given = _parser().parse_args(arguments)
    if given.rules:
        from tenuto.sim.page import rules_page

        sys.stdout.buffer.write(rules_page().encode())  # the same bytes wherever it is made
        return 0
    pace = given.pace or settings.getenv("TENUTO_SIM_PACE")
    seed = given.seed or settings.getenv("TENUTO_SIM_SEED")
    script = given.script or settings.getenv("TENUTO_SIM_SCRIPT")
    try:
        serve(Served(given.port, seed, pace, given.burst, script, given.quiet))
    except Unusable as exc:
        sys.stderr.write(f"tenuto.sim: {exc}\n")
        return 2
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tenuto.sim",
        description="A provider on your own machine: four dialects, the real providers' replay rules, no keys.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--port", type=int, default=0, metavar="N", help="the port on 127.0.0.1 (default: a free one)")
    parser.add_argument("--seed", metavar="S", help="what all chance comes from (default: tenuto)")
    parser.add_argument("--pace", metavar="TIME", help="the pause between the frames of a stream: 20ms, 0.02s")
    parser.add_argument("--burst", type=int, default=16, metavar="N", help="frames in one write (default: 16)")
    parser.add_argument("--script", metavar="FILE", help="what the model says, as JSON")
    parser.add_argument("--quiet", action="store_true", help="no line for each request on stderr")
    parser.add_argument("--rules", action="store_true", help="print the rules as a page and end")
    return parser


if __name__ == "__main__":
    sys.exit(main())
