"""The simulator in a process of its own: it lives on when whoever asks it is killed, and writes down who asked for what."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
from collections.abc import Iterator, Sequence
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

from tenuto.sim.brain import Answer, Call
from tenuto.sim.log import Record
from tenuto.sim.script import Script
from tenuto.sim.simulator import Simulator

TAG = "x-who-asks"
"""The header that tells one experiment's requests from another's. The simulator does not look at it."""


class Heard(NamedTuple):
    """One exchange: the digest of the request's bytes, both bodies as text, why it was refused, and the rules tried."""

    digest: str
    status: int
    asked: str
    answered: str
    refused: str
    tried: list[str]


class Provider(NamedTuple):
    """Where it is, and the folder in which it writes down what it hears."""

    url: str
    folder: Path

    def heard(self, tag: str) -> list[Heard]:
        """Return what was asked under a tag, in order."""
        path = self.folder / tag
        return [Heard(*json.loads(line)) for line in path.read_text().splitlines()] if path.exists() else []

    def forget(self, tag: str) -> None:
        """Remove what was asked under a tag."""
        (self.folder / tag).unlink(missing_ok=True)


@contextlib.contextmanager
def playing(base: Path, scripts: Sequence[Script]) -> Iterator[Provider]:
    """Have it play: forked off a process that has no threads, and ended with the block, or with that process."""
    folder = base / "heard"
    folder.mkdir(exist_ok=True)
    tell, told = os.pipe()
    ended, hold = os.pipe()
    pid = os.fork()
    if not pid:
        os.close(tell)
        os.close(hold)
        with contextlib.ExitStack() as ends:
            ends.callback(os._exit, 1)
            asyncio.run(_serve(scripts, folder, told, ended))
    os.close(told)
    os.close(ended)
    try:
        with os.fdopen(tell) as line:
            url = line.readline().strip()
        if not url:
            raise RuntimeError("the simulator did not start")
        yield Provider(url, folder)
    finally:
        os.close(hold)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


async def _serve(scripts: Sequence[Script], folder: Path, told: int, ended: int) -> None:
    simulator = Simulator(script=scripts)
    _overheard(simulator, folder)
    async with simulator:
        os.write(told, simulator.base_url.encode() + b"\n")
        gone = asyncio.Event()
        asyncio.get_running_loop().add_reader(ended, gone.set)  # whoever holds the other end has ended
        await gone.wait()


def _overheard(simulator: Simulator, folder: Path) -> None:
    """Have each exchange written into the file of who asked, before it is answered."""
    brain = simulator._brain
    real = brain.answer
    written: list[Record] = []
    simulator.heard = written.append

    def answer(call: Call) -> Answer:
        done = real(call)
        record = written.pop()
        body = call.body or b""
        refused = "" if record.refused is None else str(record.refused)
        tried = [] if record.verdict is None else list(record.verdict.tried)
        heard = Heard(sha256(body).hexdigest(), record.status, body.decode(), record.reply, refused, tried)
        file = os.open(folder / call.headers.get(TAG, "nobody"), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.write(file, json.dumps(heard).encode() + b"\n")
        os.close(file)
        return done

    brain.answer = answer
