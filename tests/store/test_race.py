"""Four processes that race for one session, under short leases, and are stopped in the middle of things.

Whoever was stopped for longer than its lease is a zombie when it goes on: it believes that the session is its own, and
writes. Every such write is refused, and the session is what it would be without.
"""

from __future__ import annotations

import asyncio
import os
import random
import select
import signal
import warnings

from tenuto.errors import LeaseLost, SessionInUse
from tenuto.store.locks import Locks
from tenuto.store.sql_store import SqlStore
from tenuto.testing.store_suite.helpers import draft, question

TTL = 60
LOST = 4
"""How many writes of zombies have to be refused before it is enough."""
MOST = 0.2
"""How many seconds a racer is stopped at most: one that was stopped inside of a transaction holds up all others."""


async def race(engine, name, ask, tell):
    """Take the session whenever it is free, and write to it under that lease until it is lost; say how each write ended.

    A few writes under one lease, then it is released: mostly.
    """
    chance, number = random.Random(name), 0
    async with SqlStore(engine, ttl_ms=TTL) as store:
        while not select.select([ask], [], [], 0)[0]:
            try:
                lease = await store.lease("s")
            except SessionInUse:
                await asyncio.sleep(chance.random() / 200)
                continue
            tell(f"lease {lease.fence} {lease.head}")
            try:
                for _ in range(chance.randrange(1, 12)):
                    number += 1
                    tell(f"try {lease.fence} {name}{number}")
                    lease = await store.append(lease, [draft(question(), id=f"{name}{number}")])
                    tell(f"kept {lease.fence} {name}{number} {lease.head}")
                    await asyncio.sleep(chance.random() / 500)
                await store.release(lease)
            except LeaseLost:
                tell(f"lost {lease.fence} {name}{number}")


class Racer:
    """A process that races, and what it said."""

    def __init__(self, engine, name, locks):
        ask, self.ask = os.pipe()
        self.told, tell = os.pipe()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # a child of a process with threads does only this
            self.pid = os.fork()
        if not self.pid:
            code = 1
            try:
                asyncio.run(
                    race(
                        elsewhere(engine(), locks / name), name, ask, lambda line: os.write(tell, f"{line}\n".encode())
                    )
                )
                code = 0
            finally:
                os.write(tell, b"end\n")  # others that were forked off have this open, too
                os._exit(code)
        os.close(ask)
        os.close(tell)
        self.heard = b""

    def hear(self):
        """Take what it said since; False at the end."""
        said = os.read(self.told, 65536)
        self.heard += said
        return bool(said)

    def end(self):
        """Let it come to its end; return how it ended."""
        os.write(self.ask, b".")
        os.close(self.ask)
        while b"end" not in self.heard and self.hear():
            pass
        os.close(self.told)
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])

    def lines(self):
        return [line.split() for line in self.heard.decode().split("\n")[:-1] if line != "end"]


def hear_all(racers, seconds):
    """Take what they said since, having waited for the first to say something; tell whether anybody did."""
    ready = select.select([racer.told for racer in racers], [], [], seconds)[0]
    for racer in racers:
        if racer.told in ready:
            racer.hear()
    return bool(ready)


def holder_of(racers):
    """Return who said last, of all, that the session is its own."""
    return max(racers, key=lambda racer: max((int(fence) for _, fence, *_ in racer.lines()), default=0))


def wait_for_another(others):
    """Hear the others until one of them has taken the session; or they have to wait for the one that is stopped."""
    before = sum(racer.heard.count(b"lease") for racer in others)
    while sum(racer.heard.count(b"lease") for racer in others) == before and hear_all(others, MOST):
        pass


def elsewhere(engine, folder):
    """Let an engine see none of the locks of this machine: each racer is on a machine of its own."""
    engine.locks = Locks(folder)
    return engine


def test_four_who_race_and_are_stopped(engine, tmp_path):
    asyncio.run(opened(engine))
    racers = [Racer(engine, name, tmp_path) for name in "abcd"]
    ended = []
    try:
        while sum(racer.heard.count(b"lost") for racer in racers) < LOST:
            wait_for_another(racers)
            for _ in range(20):
                hear_all(racers, 0)
            stopped = holder_of(racers)
            os.kill(stopped.pid, signal.SIGSTOP)
            wait_for_another([racer for racer in racers if racer is not stopped])
            os.kill(stopped.pid, signal.SIGCONT)
    finally:
        for racer in racers:
            os.kill(racer.pid, signal.SIGCONT)
            ended.append(racer.end())

    assert ended == [0] * 4
    judge(racers, *asyncio.run(opened(engine)))


async def opened(engine):
    async with SqlStore(engine()) as store:
        page = await store.sessions()
        return await store.read("s") if page.sessions else [], await store.verify()


def judge(racers, entries, faults):
    """What was told is what is there."""
    said = [line for racer in racers for line in racer.lines()]
    kept = {(id, int(fence), int(head)) for what, fence, id, *rest in said if what == "kept" for head in rest}
    lost = {id for what, _, id, *_ in said if what == "lost"}
    leases = sorted((int(fence), int(head)) for what, fence, head, *_ in said if what == "lease")

    assert faults == []
    assert [entry.seq for entry in entries] == [*range(1, len(entries) + 1)]
    assert {(entry.id, entry.fence, entry.seq) for entry in entries} == kept  # all that was told, and nothing else
    assert not lost & {entry.id for entry in entries}
    assert len({fence for fence, _ in leases}) == len(leases)  # nobody shared a fence
    for fence, head in leases:  # when somebody had taken the session, nobody before wrote any more
        assert all((entry.fence < fence) == (entry.seq <= head) for entry in entries if entry.fence != fence)
        assert all(entry.seq > head for entry in entries if entry.fence == fence)
    assert len(lost) >= LOST
