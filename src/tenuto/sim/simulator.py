"""The simulator in your process: `async with Simulator()`, or `with Simulator()` in synchronous code."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Collection
from concurrent.futures import Future
from functools import partial
from typing import Self

from tenuto.sim.default_reply import DefaultTools, default_reply
from tenuto.sim.engine import SimEngine
from tenuto.sim.log import ExchangeLog, ExchangeRecord
from tenuto.sim.script import End, Script, ScriptPlayer, Step, Turn, Turns
from tenuto.sim.server import HOST, Server


class Simulator:
    """A strict provider on this machine, at `base_url` while it runs.

        with Simulator(script=[turn(call("weather", {"city": "Oslo"})), turn("12 degrees")]) as sim:
            ...                     # send requests to sim.base_url
            sim.assert_clean()      # no rule was broken

    The same seed and the same request give the same reply. `pace` is the pause after each frame of a stream in seconds;
    without it, `burst` frames are written at a time. `keys` are the valid API keys; None: any key, or no key, is valid.
    Without a script, the reply repeats the request (`tenuto.sim.default_reply`); `tools` are the tools that it calls, and
    `greeting` precedes the first text of a conversation.
    In synchronous code the server has a thread and a loop of its own. The log is bounded (see `tenuto.sim.log`).
    """

    def __init__(
        self,
        seed: str = "tenuto",
        script: Turns = (),
        pace: float | None = None,
        burst: int = 16,
        keys: Collection[str] | None = None,
        port: int = 0,
        tools: DefaultTools = "each",
        greeting: str = "",
    ) -> None:
        self._scripts = ScriptPlayer(script)
        self._log = ExchangeLog(self._report)
        valid_keys = {keys} if isinstance(keys, str) else keys
        default = partial(default_reply, tools=tools, greeting=greeting)
        self._engine = SimEngine(seed, self._log, self._scripts, valid_keys, default=default)
        self._server = Server(self._engine, port=port, pace=pace, burst=burst)
        self._thread: threading.Thread | None = None
        self._stop: Callable[[], object] | None = None
        self._is_running = False
        self.on_exchange: Callable[[ExchangeRecord], None] | None = None
        """Receives each exchange, if set."""

    @property
    def base_url(self) -> str:
        """The URL of the server. Some SDKs need `/v1` after it; those of Anthropic and Google add their own."""
        if not self._is_running:
            raise RuntimeError("the simulator is not running: use it in a `with` or an `async with`")
        return f"http://{HOST}:{self._server.port}"

    @property
    def requests(self) -> list[ExchangeRecord]:
        """The exchanges so far, oldest first."""
        return self._log.records

    @property
    def exercised(self) -> set[str]:
        """The ids of the rules that had something to check."""
        return self._log.exercised_rules

    @property
    def refusals(self) -> list[ExchangeRecord]:
        """The refused exchanges, without the errors of a script."""
        return self._log.refusals

    def script(self, *turns: Turn | Step | str | Script, when: str = "", then: End = "error") -> None:
        """Set the turns to play, from the first reply of a conversation on; no turns: the default reply.

        With `when`, they are for conversations whose system text or any user text contains it, next to other scripts.
        `then` says what follows the last turn: an error, the default reply, or the turns again.
        """
        self._scripts.put(turns, when, then)

    def clear(self) -> None:
        """Clear the log. The scripts stay."""
        self._log.clear()

    def assert_clean(self) -> None:
        """Raise `AssertionError` if a request was refused or its script had no turn for it; list each with its remedy."""
        refused = self.refusals
        if refused:
            texts = [f"{number}. {record.explain()}" for number, record in enumerate(refused, 1)]
            count = f"{len(refused)} requests were" if len(refused) > 1 else "1 request was"
            raise AssertionError(f"{count} refused:\n" + "\n".join(texts))

    async def __aenter__(self) -> Self:
        self._check_not_running()
        await self._server.start()
        self._is_running = True
        return self

    async def __aexit__(self, *error: object) -> None:
        self._is_running = False
        await self._server.stop()

    def close_socket(self) -> None:
        """Close the socket if the loop in which it was entered no longer exists."""
        self._is_running = False
        self._server.close_socket()

    def __enter__(self) -> Self:
        self._check_not_running()
        started: Future[Callable[[], object]] = Future()
        thread = threading.Thread(target=self._run_in_thread, args=(started,), name="tenuto.sim", daemon=True)
        thread.start()
        self._stop = started.result()
        self._thread, self._is_running = thread, True
        return self

    def __exit__(self, *error: object) -> None:
        thread, self._thread = self._thread, None
        self._is_running = False
        if thread is not None and self._stop is not None:
            self._stop()
            thread.join()

    def _run_in_thread(self, started: Future[Callable[[], object]]) -> None:
        """Serve in a loop of this thread until the function is called that `started` receives."""

        async def serve() -> None:
            loop, stop = asyncio.get_running_loop(), asyncio.Event()
            await self._server.start()
            started.set_result(partial(loop.call_soon_threadsafe, stop.set))
            await stop.wait()
            await self._server.stop()

        try:
            asyncio.run(serve())
        except Exception as exc:  # the port is in use, or there are too many open files
            if started.done():
                raise
            started.set_exception(exc)

    def _check_not_running(self) -> None:
        if self._is_running:
            raise RuntimeError("the simulator is already running: use one `with` at a time")

    def __repr__(self) -> str:
        return f"<Simulator at {self.base_url}>" if self._is_running else "<Simulator>"

    def _report(self, record: ExchangeRecord) -> None:
        if self.on_exchange is not None:
            self.on_exchange(record)


def parse_pace(text: str) -> float | None:
    """Read a pause: `20ms`, `0.02s`, `0.02` (seconds) or `20` (a whole number: milliseconds). None if empty or zero.

    Raise `ValueError` for anything else.
    """
    text = text.strip().lower()
    number = text.removesuffix("ms" if text.endswith("ms") else "s").strip()
    try:
        value = float(number or ("x" if text else 0))
    except ValueError:
        raise ValueError(f"invalid pause {text!r}: write 20ms or 0.02s") from None
    if not 0 <= value < 3600:
        raise ValueError(f"invalid pause {text!r}: it must be between 0 and an hour")
    return (value / 1000 if text.endswith("ms") or text.isdigit() else value) or None
