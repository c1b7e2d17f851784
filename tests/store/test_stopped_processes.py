"""Four processes race for one session under short leases and are stopped at random.

A process that is stopped for longer than its lease continues to write as if it held the session. Every such write is
refused, and the session is the same as without it.
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
"""The number of refused writes after which the race ends."""
MOST = 0.2
"""The longest stop in seconds: a process that is stopped in a transaction blocks all others."""


async def race(engine, name, stop, report):
    """Take the session when it is free, write until the lease is lost or released, and report each write."""
    chance, number = random.Random(name), 0
    async with SqlStore(engine, ttl_ms=TTL) as store:
        while not select.select([stop], [], [], 0)[0]:
            try:
                lease = await store.lease("s")
            except SessionInUse:
                await asyncio.sleep(chance.random() / 200)
                continue
            report(f"lease {lease.fence} {lease.head}")
            try:
                for _ in range(chance.randrange(1, 12)):
                    number += 1
                    report(f"try {lease.fence} {name}{number}")
                    lease = await store.append(lease, [draft(question(), id=f"{name}{number}")])
                    report(f"kept {lease.fence} {name}{number} {lease.head}")
                    await asyncio.sleep(chance.random() / 500)
                await store.release(lease)
            except LeaseLost:
                report(f"lost {lease.fence} {name}{number}")


class Racer:
    """A process that races, and its reports."""

    def __init__(self, engine, name, locks):
        stop_pipe, self.stop_pipe = os.pipe()
        self.report_pipe, report = os.pipe()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # a child of a process with threads does only this
            self.pid = os.fork()
        if not self.pid:
            code = 1
            try:
                asyncio.run(
                    race(
                        without_shared_locks(engine(), locks / name),
                        name,
                        stop_pipe,
                        lambda line: os.write(report, f"{line}\n".encode()),
                    )
                )
                code = 0
            finally:
                os.write(report, b"end\n")  # other forked processes have this open, too
                os._exit(code)
        os.close(stop_pipe)
        os.close(report)
        self.reports = b""

    def read_reports(self):
        """Read the new reports; return False at the end."""
        data = os.read(self.report_pipe, 65536)
        self.reports += data
        return bool(data)

    def end(self):
        """Let the process end; return its exit status."""
        os.write(self.stop_pipe, b".")
        os.close(self.stop_pipe)
        while b"end" not in self.reports and self.read_reports():
            pass
        os.close(self.report_pipe)
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])

    def lines(self):
        return [line.split() for line in self.reports.decode().split("\n")[:-1] if line != "end"]


def read_all(racers, seconds):
    """Wait for the first report and read all; return whether there was one."""
    ready = select.select([racer.report_pipe for racer in racers], [], [], seconds)[0]
    for racer in racers:
        if racer.report_pipe in ready:
            racer.read_reports()
    return bool(ready)


def holder_of(racers):
    """Return the process that last reported a lease."""
    return max(racers, key=lambda racer: max((int(fence) for _, fence, *_ in racer.lines()), default=0))


def wait_for_another(others):
    """Read reports until another process has the session, or all wait for the stopped one."""
    before = sum(racer.reports.count(b"lease") for racer in others)
    while sum(racer.reports.count(b"lease") for racer in others) == before and read_all(others, MOST):
        pass


def without_shared_locks(engine, folder):
    """Hide the locks of this machine from an engine, as if each process were on its own machine."""
    engine.locks = Locks(folder)
    return engine


def test_stopped_processes_cannot_write_after_their_lease(engine, tmp_path):
    asyncio.run(opened(engine))
    racers = [Racer(engine, name, tmp_path) for name in "abcd"]
    ended = []
    try:
        while sum(racer.reports.count(b"lost") for racer in racers) < LOST:
            wait_for_another(racers)
            for _ in range(20):
                read_all(racers, 0)
            stopped = holder_of(racers)
            os.kill(stopped.pid, signal.SIGSTOP)
            wait_for_another([racer for racer in racers if racer is not stopped])
            os.kill(stopped.pid, signal.SIGCONT)
    finally:
        for racer in racers:
            os.kill(racer.pid, signal.SIGCONT)
            ended.append(racer.end())

    assert ended == [0] * 4
    check_reports(racers, *asyncio.run(opened(engine)))


async def opened(engine):
    async with SqlStore(engine()) as store:
        page = await store.sessions()
        return await store.read("s") if page.sessions else [], await store.verify()


def check_reports(racers, entries, faults):
    """Compare the reports with the entries."""
    lines = [line for racer in racers for line in racer.lines()]
    acknowledged = {(id, int(fence), int(head)) for what, fence, id, *rest in lines if what == "kept" for head in rest}
    lost = {id for what, _, id, *_ in lines if what == "lost"}
    leases = sorted((int(fence), int(head)) for what, fence, head, *_ in lines if what == "lease")

    assert faults == []
    assert [entry.seq for entry in entries] == [*range(1, len(entries) + 1)]
    assert {(entry.id, entry.fence, entry.seq) for entry in entries} == acknowledged  # exactly the acknowledged entries
    assert not lost & {entry.id for entry in entries}
    assert len({fence for fence, _ in leases}) == len(leases)  # no fence was used twice
    for fence, head in leases:  # after a process took the session, no earlier holder wrote
        assert all((entry.fence < fence) == (entry.seq <= head) for entry in entries if entry.fence != fence)
        assert all(entry.seq > head for entry in entries if entry.fence == fence)
    assert len(lost) >= LOST
