"""Signals that ask the command to end: the first time it puts down what it did, the second time it leaves at once."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

__all__ = ["heeded"]

_NAMES = ("SIGINT", "SIGTERM", "SIGHUP", "SIGBREAK")


@contextmanager
def heeded(stop: Callable[[int], None]) -> Iterator[None]:
    """Have `stop` called, in the loop, with the first signal that asks to end; with the second, the process ends."""
    if threading.current_thread() is not threading.main_thread():
        yield  # who calls from elsewhere has his own ways
        return
    loop = asyncio.get_running_loop()
    told: list[int] = []

    def tell(number: int) -> None:
        if told:
            os._exit(128 + number)
        told.append(number)
        stop(number)

    def caught(number: int, _: object) -> None:
        """Where the loop cannot catch signals: only this wakes it up there."""
        if told:
            os._exit(128 + number)
        loop.call_soon_threadsafe(tell, number)

    numbers = [getattr(signal, name) for name in _NAMES if hasattr(signal, name)]
    before = {number: signal.getsignal(number) for number in numbers}
    before = {number: handler for number, handler in before.items() if handler not in (signal.SIG_IGN, None)}
    for number in before:  # whom `nohup` or a shell told to ignore one goes on ignoring it
        try:
            loop.add_signal_handler(number, tell, number)
        except NotImplementedError:
            signal.signal(number, caught)
    try:
        yield
    finally:
        for number, handler in before.items():
            with suppress(NotImplementedError):
                loop.remove_signal_handler(number)
            signal.signal(number, handler)
