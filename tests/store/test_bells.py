"""Waking an event loop from another thread: everything arrives, in order, and nothing is left open."""

from __future__ import annotations

import asyncio
import gc
import sys
import threading
from pathlib import Path

import pytest

from tenuto.store.bells import bell_of


class Blind(asyncio.SelectorEventLoop):
    """A loop that can watch no file of ours, as the one of Windows."""

    def add_reader(self, *args):
        raise NotImplementedError


class Heard:
    """Notes in which order and where it is heard."""

    def __init__(self, number, notes):
        self.number = number
        self.notes = notes

    def heard(self):
        self.notes.append((self.number, threading.get_ident()))


def open_files() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


@pytest.mark.parametrize("loop", [asyncio.SelectorEventLoop, Blind])
def test_what_is_handed_over_arrives_in_the_loop_and_in_order(loop):
    taken: list[tuple[int, int]] = []
    what = [Heard(number, taken) for number in range(1000)]

    async def tell():
        bell = bell_of(asyncio.get_running_loop())
        assert bell_of(asyncio.get_running_loop()) is bell
        thread = threading.Thread(target=lambda: [bell.ring(*what[at : at + 4]) for at in range(0, 1000, 4)])
        thread.start()
        while len(taken) < 1000:
            await asyncio.sleep(0.001)
        thread.join()

    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(tell())

    assert taken == [(number, threading.get_ident()) for number in range(1000)]


@pytest.mark.parametrize("loop", [asyncio.SelectorEventLoop, Blind])
def test_a_loop_that_is_closed_is_not_woken(loop):
    taken: list[tuple[int, int]] = []

    async def told():
        return bell_of(asyncio.get_running_loop())

    with asyncio.Runner(loop_factory=loop) as runner:
        bell = runner.run(told())
    bell.ring(Heard(1, taken))

    assert taken == []


@pytest.mark.skipif(sys.platform != "linux", reason="there are no eventfds")
def test_loops_that_are_gone_leave_nothing_open():
    async def told():
        bell_of(asyncio.get_running_loop())

    asyncio.run(told())
    gc.collect()
    before = open_files()
    for _ in range(20):
        asyncio.run(told())
    gc.collect()

    assert open_files() <= before
