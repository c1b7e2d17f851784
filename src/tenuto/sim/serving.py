"""The simulator as a server of its own, until somebody ends it: what both commands that start one share."""

from __future__ import annotations

import asyncio
import signal
import sys
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, TextIO

from tenuto.sim.script import Script, load

__all__ = ["Served", "Unusable", "serve"]


class Served(NamedTuple):
    """What is to be served: a `port` on this machine (0: a free one), what all chance comes from, the pause between the
    frames of a stream, how many of them one write has, a file with what the model says. `quiet`: requests are not told.
    """

    port: int = 0
    seed: str = ""
    pace: str = ""
    burst: int = 16
    script: str = ""
    quiet: bool = False


class Unusable(Exception):
    """Something that was given cannot be used: the message says what."""


def serve(wanted: Served) -> None:
    """Say where it listens, and serve until Ctrl-C, or until the process is asked to end. Raise `Unusable`."""
    with suppress(KeyboardInterrupt):  # where signals cannot be handled in a loop
        asyncio.run(_serve(wanted))


async def _serve(wanted: Served) -> None:
    from tenuto.sim.simulator import Simulator, parse_pace

    try:
        pace, script = parse_pace(wanted.pace), _script(wanted.script)
        simulator = Simulator(wanted.seed or "tenuto", script, pace, wanted.burst, port=wanted.port)
    except ValueError as exc:
        raise Unusable(str(exc)) from None
    if not wanted.quiet:
        simulator.heard = lambda record: _say(sys.stderr, record.line())
    try:
        await simulator.__aenter__()
    except OSError as exc:
        raise Unusable(f"port {wanted.port} cannot be used: {exc.strerror or exc}") from None
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
        raise Unusable(f"{path}: {exc.strerror}") from None
    except ValueError as exc:
        raise Unusable(f"{path}: {exc}") from None


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


def _say(stream: TextIO | None, text: str) -> None:
    if stream is not None:
        with suppress(OSError, ValueError):  # nobody listens any more: that is no reason not to serve
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
