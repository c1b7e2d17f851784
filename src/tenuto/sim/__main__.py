"""`python -m tenuto.sim`: the simulator as a server."""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TextIO

from tenuto import settings
from tenuto.sim.script import Script, load

if TYPE_CHECKING:
    from tenuto.sim.simulator import Simulator

_EXAMPLES = """\
examples:
  python -m tenuto.sim --port 8700
  python -m tenuto.sim --pace 20ms                 pause after each frame of a stream
  python -m tenuto.sim --script script.json        the replies, as JSON
  python -m tenuto.sim --rules > docs/rules.md     print the rules

A script is JSON, one list of steps for each reply of a conversation:
  {"turns": [[{"do": "think", "text": "hm"}, {"do": "call", "name": "weather", "args": {"city": "Oslo"}}],
             [{"do": "say", "text": "12 degrees"}]], "then": "default"}

"when" selects conversations by a user text or the system text. "then" says what follows the last reply: "error" [default],
"default" or "repeat". The default reply repeats the text, and calls no tool unless the request forces it to.

Models name a provider: sim/anthropic, sim/anthropic/claude-opus-4-6; other clients omit sim/.
GET /_sim/log returns the exchanges, POST /_sim/script sets a script, GET /_sim/rules lists the rules that had something
to check. TENUTO_SIM_SEED, TENUTO_SIM_PACE and TENUTO_SIM_SCRIPT are the defaults of the options.
"""


class ServerOptions(NamedTuple):
    port: int = 0
    """The port on 127.0.0.1; 0: a free one."""
    seed: str = ""
    pace: str = ""
    """The pause after each frame of a stream, such as `20ms`."""
    burst: int = 16
    script: str = ""
    """A file with a script."""
    quiet: bool = False
    """Whether requests are not printed."""


class UsageError(Exception):
    """An option has an invalid value."""


def serve(options: ServerOptions) -> None:
    """Print the URL and serve until Ctrl-C or SIGTERM. Raise `UsageError`."""
    with suppress(KeyboardInterrupt):  # platforms without signal handlers in the loop
        asyncio.run(_serve(options))


async def _serve(options: ServerOptions) -> None:
    server = make_simulator(options)
    if not options.quiet:
        server.on_exchange = lambda record: _print(sys.stderr, record.summary())
    try:
        await server.__aenter__()
    except OSError as exc:
        raise UsageError(f"port {options.port} cannot be used: {exc.strerror or exc}") from None
    try:
        _announce(server.base_url)
        await _wait_for_signal()
    finally:
        await server.__aexit__(None, None, None)


def make_simulator(options: ServerOptions) -> Simulator:
    """Return the simulator of the server. Raise `UsageError`."""
    from tenuto.sim.simulator import Simulator, parse_pace

    try:
        pace, script = parse_pace(options.pace), _script(options.script)
        # clients of other programs offer tools with effects: the default reply calls none of them
        return Simulator(options.seed or "tenuto", script, pace, options.burst, port=options.port, tools="none")
    except ValueError as exc:
        raise UsageError(str(exc)) from None


def _script(path: str) -> tuple[Script, ...]:
    if not path:
        return ()
    try:
        return load(Path(path).read_bytes())
    except OSError as exc:
        raise UsageError(f"{path}: {exc.strerror}") from None
    except ValueError as exc:
        raise UsageError(f"{path}: {exc}") from None


def _announce(url: str) -> None:
    lines = [
        f"tenuto.sim is listening at {url}",
        "",
        f"export TENUTO_SIM_URL={url}",
        f"export ANTHROPIC_BASE_URL={url} ANTHROPIC_API_KEY=none",
        f"export OPENAI_BASE_URL={url}/v1 OPENAI_API_KEY=none",
        f"export GOOGLE_GEMINI_BASE_URL={url} GEMINI_API_KEY=none",
        "",
        "Press Ctrl-C to stop.",
    ]
    _print(sys.stdout, "\n".join(lines))


def _print(stream: TextIO | None, text: str) -> None:
    if stream is not None:
        with suppress(OSError, ValueError):  # the output is closed: continue to serve
            stream.write(f"{text}\n")
            stream.flush()


async def _wait_for_signal() -> None:
    """Wait for Ctrl-C or SIGTERM."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    with suppress(NotImplementedError):  # on Windows; there, Ctrl-C ends the loop
        for name in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(name, stop.set)
    await stop.wait()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run until Ctrl-C. Return 0, or 2 for an invalid option."""
    options = _parser().parse_args(arguments)
    if options.rules:
        from tenuto.rules.page import rules_page

        sys.stdout.buffer.write(rules_page().encode())  # the same bytes on every platform
        return 0
    pace = options.pace or settings.getenv("TENUTO_SIM_PACE")
    seed = options.seed or settings.getenv("TENUTO_SIM_SEED")
    script = options.script or settings.getenv("TENUTO_SIM_SCRIPT")
    try:
        serve(ServerOptions(options.port, seed, pace, options.burst, script, options.quiet))
    except UsageError as exc:
        sys.stderr.write(f"tenuto.sim: {exc}\n")
        return 2
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tenuto.sim",
        description="A provider on your machine: four dialects, the rules of the real providers, no keys.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--port", type=int, default=0, metavar="N", help="port on 127.0.0.1 [default: a free one]")
    parser.add_argument("--seed", metavar="S", help="seed of all random choices [default: tenuto]")
    parser.add_argument("--pace", metavar="TIME", help="pause after each frame of a stream: 20ms, 0.02s")
    parser.add_argument("--burst", type=int, default=16, metavar="N", help="frames per write [default: 16]")
    parser.add_argument("--script", metavar="FILE", help="script of replies, as JSON")
    parser.add_argument("--quiet", action="store_true", help="do not print requests to stderr")
    parser.add_argument("--rules", action="store_true", help="print the rules as a Markdown page")
    return parser


if __name__ == "__main__":
    sys.exit(main())
