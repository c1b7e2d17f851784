"""`python -m tenuto.sim`: the simulator as a server of its own."""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TextIO

from tenuto import settings
from tenuto.sim.script import Script, load

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


class _Usage(Exception):
    """Something that was given cannot be used: the message says what."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run until Ctrl-C. Return 0, or 2 if something that was given cannot be used."""
    given = _parser().parse_args(arguments)
    if given.rules:
        from tenuto.sim.page import rules_page

        sys.stdout.buffer.write(rules_page().encode())  # the same bytes wherever it is made
        return 0
    try:
        with suppress(KeyboardInterrupt):  # where signals cannot be handled in a loop
            asyncio.run(_serve(given))
    except _Usage as exc:
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


async def _serve(given: argparse.Namespace) -> None:
    from tenuto.sim.simulator import Simulator, parse_pace

    try:
        pace = parse_pace(given.pace or settings.value("TENUTO_SIM_PACE"))
        seed = given.seed or settings.value("TENUTO_SIM_SEED") or "tenuto"
        script = _script(given.script or settings.value("TENUTO_SIM_SCRIPT"))
        simulator = Simulator(seed, script, pace, given.burst, port=given.port)
    except ValueError as exc:
        raise _Usage(str(exc)) from None
    if not given.quiet:
        simulator.heard = lambda record: _say(sys.stderr, record.line())
    try:
        await simulator.__aenter__()
    except OSError as exc:
        raise _Usage(f"port {given.port} cannot be used: {exc.strerror or exc}") from None
    try:
        _announce(simulator.base_url)
        await _told_to_stop()
    finally:
        await simulator.__aexit__(None, None, None)


def _script(path: str) -> tuple[Script, ...]:
    if not path:
        return ()
    try:
        return load(Path(path).read_bytes())
    except OSError as exc:
        raise _Usage(f"{path}: {exc.strerror}") from None
    except ValueError as exc:
        raise _Usage(f"{path}: {exc}") from None


def _announce(url: str) -> None:
    lines = [
        f"tenuto.sim listens at {url}",
        "",
        f"export TENUTO_SIM_URL={url}",
        f"export ANTHROPIC_BASE_URL={url} ANTHROPIC_API_KEY=none",
        f"export OPENAI_BASE_URL={url}/v1 OPENAI_API_KEY=none",
        f"export GOOGLE_GEMINI_BASE_URL={url} GEMINI_API_KEY=none",
        "",
        "Ctrl-C ends it.",
    ]
    _say(sys.stdout, "\n".join(lines))


def _say(stream: TextIO, text: str) -> None:
    with suppress(OSError):  # nobody listens any more: that is no reason not to serve
        stream.write(f"{text}\n")
        stream.flush()


async def _told_to_stop() -> None:
    """Wait for Ctrl-C, or to be asked to end."""
    told = asyncio.Event()
    loop = asyncio.get_running_loop()
    with suppress(NotImplementedError):  # on Windows; there, Ctrl-C ends the loop
        for name in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(name, told.set)
    await told.wait()


if __name__ == "__main__":
    sys.exit(main())
