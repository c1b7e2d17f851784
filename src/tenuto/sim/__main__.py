"""`python -m tenuto.sim`: the simulator as a server."""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
from collections.abc import Sequence
from contextlib import AsyncExitStack, suppress
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
  {"turns": [[{"do": "call", "name": "weather", "args": {"city": "Oslo"}}], [{"do": "say", "text": "12 degrees"}]],
   "when": "Weather", "then": "default"}

TENUTO_SIM_SEED, TENUTO_SIM_PACE and TENUTO_SIM_SCRIPT are the defaults of the options. `tenuto sim --help` says more.
"""


_ANNOUNCEMENT = """\
tenuto.sim is listening at {url}

export TENUTO_SIM_URL={url}
export ANTHROPIC_BASE_URL={url} ANTHROPIC_API_KEY=none
export OPENAI_BASE_URL={url}/v1 OPENAI_API_KEY=none
export GOOGLE_GEMINI_BASE_URL={url} GEMINI_API_KEY=none

Press Ctrl-C to stop."""


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
    with suppress(KeyboardInterrupt):
        asyncio.run(_serve(options))


async def _serve(options: ServerOptions) -> None:
    server = make_simulator(options)
    if not options.quiet:
        server.on_exchange = lambda record: _print(sys.stderr, record.summary())
    async with AsyncExitStack() as stack:
        try:
            await stack.enter_async_context(server)
        except OSError as exc:
            raise UsageError(f"port {options.port} cannot be used: {exc.strerror or exc}") from None
        stop = asyncio.Event()
        with suppress(NotImplementedError):  # on Windows; Ctrl-C cancels this task
            asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
        _print(sys.stdout, _ANNOUNCEMENT.format(url=server.base_url))
        await stop.wait()


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


def _print(stream: TextIO | None, text: str) -> None:
    if stream is not None:
        with suppress(OSError, ValueError):  # the output is closed: continue to serve
            stream.write(f"{text}\n")
            stream.flush()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run until Ctrl-C. Return 0, or 2 for an invalid option."""
    options = _parser().parse_args(arguments)
    if options.rules:
        from tenuto.rules.page import rules_page

        sys.stdout.buffer.write(rules_page().encode())  # the same bytes on every platform
        return 0
    try:
        serve(ServerOptions(options.port, options.seed, options.pace, options.burst, options.script, options.quiet))
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
    for name, metavar, help in (
        ("seed", "S", "seed of all random choices [default: tenuto]"),
        ("pace", "TIME", "pause after each frame of a stream: 20ms, 0.02s"),
        ("script", "FILE", "script of replies, as JSON"),
    ):
        default = settings.getenv(f"TENUTO_SIM_{name.upper()}")
        parser.add_argument(f"--{name}", default=default, metavar=metavar, help=help)
    parser.add_argument("--burst", type=int, default=16, metavar="N", help="frames per write [default: 16]")
    parser.add_argument("--quiet", action="store_true", help="do not print requests to stderr")
    parser.add_argument("--rules", action="store_true", help="print the rules as a Markdown page")
    return parser


if __name__ == "__main__":
    sys.exit(main())
