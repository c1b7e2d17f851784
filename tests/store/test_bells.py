"""Waking an event loop from another thread: everything arrives, in order, and nothing is left open."""

from __future__ import annotations

import asyncio
import gc
import sys
import threading
from pathlib import Path

import pytest

from tenuto.store.bells import Bells


class Blind(asyncio.SelectorEventLoop):
    """A loop that can watch no file of ours, as the one of Windows."""

    def add_reader(self, *args):
        raise NotImplementedError


def open_files() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


@pytest.mark.parametrize("loop", [asyncio.SelectorEventLoop, Blind])
def test_what_is_handed_over_arrives_in_the_loop_and_in_order(loop):
    taken: list[tuple[int, int]] = []
    bells = Bells[int](lambda what: taken.append((what, threading.get_ident())))

    async def tell():
        bell = bells.of(asyncio.get_running_loop())
        assert bells.of(asyncio.get_running_loop()) is bell
        thread = threading.Thread(target=lambda: [bell.ring(number) for number in range(1000)])
        thread.start()
        while len(taken) < 1000:
            await asyncio.sleep(0.001)
        thread.join()

    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(tell())

    assert taken == [(number, threading.get_ident()) for number in range(1000)]


@pytest.mark.parametrize("loop", [asyncio.SelectorEventLoop, Blind])
def test_a_loop_that_is_closed_is_not_woken(loop):
    taken: list[str] = []
    bells = Bells[str](taken.append)

    async def told():
        return bells.of(asyncio.get_running_loop())

    with asyncio.Runner(loop_factory=loop) as runner:
        bell = runner.run(told())
    bell.ring("too late")

    assert taken == []


@pytest.mark.skipif(sys.platform != "linux", reason="there are no eventfds")
def test_loops_that_are_gone_leave_nothing_open():
    bells = Bells[str](print)

    async def told():
        bells.of(asyncio.get_running_loop())

    asyncio.run(told())
    gc.collect()
    before = open_files()
    for _ in range(20):
        asyncio.run(told())
    gc.collect()

    assert open_files() <= before
