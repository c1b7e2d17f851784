"""`python -m tenuto.sim`: the simulator as a server."""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
from collections.abc import Sequence
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from tenuto.settings import getenv
from tenuto.sim.script import load

if TYPE_CHECKING:
    from tenuto.sim.simulator import Simulator

_ANNOUNCEMENT = """\
tenuto.sim is listening at {url}

export TENUTO_SIM_URL={url}
export ANTHROPIC_BASE_URL={url} ANTHROPIC_API_KEY=none
export OPENAI_BASE_URL={url}/v1 OPENAI_API_KEY=none
export GOOGLE_GEMINI_BASE_URL={url} GEMINI_API_KEY=none

Press Ctrl-C to stop."""


class UsageError(Exception):
    """An option has an invalid value."""


def serve(port: int, seed: str | None, pace: str | None, burst: int, script: str | None, *, quiet: bool) -> None:
    """Print the URL and serve until Ctrl-C or SIGTERM. Raise `UsageError`."""
    with suppress(KeyboardInterrupt):
        asyncio.run(_serve(make_simulator(port, seed, pace, burst, script), port, quiet=quiet))


async def _serve(server: Simulator, port: int, *, quiet: bool) -> None:
    if not quiet:
        server.on_exchange = lambda record: _print(sys.stderr, record.summary())
    async with AsyncExitStack() as stack:
        try:
            await stack.enter_async_context(server)
        except OSError as exc:
            raise UsageError(f"port {port} cannot be used: {exc.strerror or exc}") from None
        stop = asyncio.Event()
        with suppress(NotImplementedError):  # on Windows; Ctrl-C cancels this task
            asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
        _print(sys.stdout, _ANNOUNCEMENT.format(url=server.base_url))
        await stop.wait()


def make_simulator(
    port: int = 0, seed: str | None = None, pace: str | None = None, burst: int = 16, script: str | None = None
) -> Simulator:
    """Return the simulator of the server. Options that are not set are in the environment. Raise `UsageError`."""
    from tenuto.sim.simulator import Simulator, parse_pace

    given = {"SEED": seed, "PACE": pace, "SCRIPT": script}
    seed, pace, path = (value or getenv(f"TENUTO_SIM_{name}") for name, value in given.items())
    try:
        turns = load(Path(path).read_bytes()) if path else ()
    except OSError as exc:
        raise UsageError(f"{path}: {exc.strerror}") from None
    except ValueError as exc:
        raise UsageError(f"{path}: {exc}") from None
    try:
        # clients of other programs offer tools with effects: the default reply calls none of them
        return Simulator(seed or "tenuto", turns, parse_pace(pace), burst, port=port, tools="none")
    except ValueError as exc:
        raise UsageError(str(exc)) from None


def _print(stream: TextIO | None, text: str) -> None:
    if stream is not None:
        with suppress(OSError, ValueError):  # the output is closed: continue to serve
            stream.write(f"{text}\n")
            stream.flush()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run until Ctrl-C. Return 0, or 2 for an invalid option."""
    parser = argparse.ArgumentParser(
        "python -m tenuto.sim",
        description="A provider on your machine: four dialects, the rules of the real providers, no keys.",
        epilog="`tenuto sim --help` describes the options. TENUTO_SIM_SEED, _PACE and _SCRIPT are defaults of theirs.",
    )
    for name, default in (("port", 0), ("seed", ""), ("pace", ""), ("burst", 16), ("script", "")):
        parser.add_argument(f"--{name}", type=type(default), default=default)
    for name in ("quiet", "rules"):
        parser.add_argument(f"--{name}", action="store_true")
    options = vars(parser.parse_args(arguments))
    if options.pop("rules"):
        from tenuto.rules.page import rules_page

        sys.stdout.buffer.write(rules_page().encode())  # the same bytes on every platform
        return 0
    try:
        serve(**options)
    except UsageError as exc:
        sys.stderr.write(f"tenuto.sim: {exc}\n")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
