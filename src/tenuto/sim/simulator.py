"""The simulator in your own process: `async with Simulator()`, or `with Simulator()` in code that does not await."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Collection
from types import TracebackType
from typing import Self

from tenuto.sim.brain import Brain
from tenuto.sim.cues import Scripts, Turns
from tenuto.sim.log import Log, Record
from tenuto.sim.script import Script, Step, Turn
from tenuto.sim.server import HOST, Server

__all__ = ["Simulator", "parse_pace"]


class Simulator:
    """A strict provider on this machine, at `base_url` while it runs.

        with Simulator(script=[turn(call("weather", {"city": "Oslo"})), turn("12 degrees")]) as sim:
            ...                     # ask sim.base_url
            sim.assert_clean()      # no replay rule was broken

    The same seed and the same request give the same reply. Without a `script` an assistant makes replies up. `pace` is
    the pause between the frames of a stream in seconds; without one, `burst` frames are written at a time. `keys` are the
    keys that are taken; None takes any, and none at all. In code that does not await, it has a loop and a thread of its
    own. The log is bounded, as `tenuto.sim.log` says.
    """

    def __init__(
        self,
        seed: str = "tenuto",
        script: Turns = (),
        pace: float | None = None,
        burst: int = 16,
        keys: Collection[str] | None = None,
        port: int = 0,
    ) -> None:
        self._scripts = Scripts(script)
        self._log = Log(self._heard)
        self._brain = Brain(seed, self._log, self._scripts, {keys} if isinstance(keys, str) else keys)
        self._server = Server(self._brain, port=port, pace=pace, burst=burst)
        self._thread: _Thread | None = None
        self._runs = False
        self.heard: Callable[[Record], None] | None = None
        """Is told of each exchange, if set."""

    # --- what happened ------------------------------------------------------------------------------------------------

    @property
    def base_url(self) -> str:
        """Where it is. Some SDKs want `/v1` behind it; the anthropic and google-genai ones add their own."""
        if not self._runs:
            raise RuntimeError("the simulator does not run: use it in a `with` or an `async with`")
        return f"http://{HOST}:{self._server.port}"

    @property
    def requests(self) -> list[Record]:
        """The exchanges so far, oldest first."""
        return self._log.records

    @property
    def exercised(self) -> set[str]:
        """The ids of the rules that were put to the test."""
        return self._log.tried

    @property
    def refusals(self) -> list[Record]:
        """The exchanges that were refused; not those that a script denied."""
        return self._log.refusals

    def script(self, *turns: Turn | Step | str | Script, when: str = "") -> None:
        """Set the turns to be played, from the first answer of a conversation on; none at all: the assistant's.

        With `when`, they are for conversations whose system text or first message contains it, beside the other scripts.
        """
        self._scripts.put(turns, when)

    def clear(self) -> None:
        """Forget what happened. The scripts stay."""
        self._log.clear()

    def assert_clean(self) -> None:
        """Raise `AssertionError` if any request was refused, or went beyond its script: each, with what to do."""
        refused = self.refusals
        if refused:
            told = [f"{at + 1}. {one.story()}" for at, one in enumerate(refused)]
            count = f"{len(refused)} requests were" if len(refused) > 1 else "1 request was"
            raise AssertionError(f"{count} refused:\n" + "\n".join(told))

    # --- running ------------------------------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        self._check_idle()
        await self._server.start()
        self._runs = True
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._runs = False
        await self._server.stop()

    def leave(self) -> None:
        """Let go of the socket, where the loop in which it was entered is gone."""
        self._runs = False
        self._server.leave()

    def __enter__(self) -> Self:
        self._check_idle()
        thread = _Thread(self._server)
        thread.begin()
        self._thread = thread
        self._runs = True
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        thread, self._thread = self._thread, None
        self._runs = False
        if thread is not None:
            thread.end()

    def _check_idle(self) -> None:
        if self._runs:
            raise RuntimeError("the simulator runs already: one `with` at a time")

    def __repr__(self) -> str:
        return f"<Simulator at {self.base_url}>" if self._runs else "<Simulator>"

    def _heard(self, record: Record) -> None:
        if self.heard is not None:
            self.heard(record)


class _Thread:
    """A server on a loop of its own."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._ready = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self._trouble: OSError | None = None
        self._thread = threading.Thread(target=self._run, name="tenuto.sim", daemon=True)

    def begin(self) -> None:
        """Start it, and wait until it listens. Raise `OSError` if it cannot."""
        self._thread.start()
        self._ready.wait()
        if self._trouble is not None:
            self._thread.join()
            raise self._trouble

    def end(self) -> None:
        """Stop it, and wait until it has."""
        if self._loop is not None and self._stop is not None:
            self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        finally:
            self._ready.set()

    async def _serve(self) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        try:
            await self._server.start()
        except OSError as exc:
            self._trouble = exc
            return
        self._ready.set()
        await self._stop.wait()
        await self._server.stop()


def parse_pace(text: str) -> float | None:
    """Read a pause: `20ms`, `0.02s`, `0.02` (seconds) or `20` (a whole number: milliseconds). None if it is nothing.

    Raise `ValueError` for anything else.
    """
    text = text.strip().lower()
    if not text:
        return None
    number, unit = text, ""
    for unit in ("ms", "s", ""):
        if text.endswith(unit):
            number = text.removesuffix(unit).strip()
            break
    try:
        value = float(number)
    except ValueError:
        raise ValueError(f"{text!r} is no pause: write 20ms or 0.02s") from None
    if not 0 <= value < 3600:
        raise ValueError(f"{text!r} is no pause: it is below nothing or longer than an hour")
    thousandths = unit == "ms" or (not unit and number.isdigit())
    return (value / 1000 if thousandths else value) or None
