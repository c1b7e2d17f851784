"""The ten tasks: what the simulator says, how a program is started, and what it has to print."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

from bench.peers.environments import make_variables
from tenuto.sim.script import End, Turn
from tenuto.testing import Simulator, call, deny, say, think, turn

PROGRAMS = Path(__file__).parent
LIBRARIES = ("tenuto", "pydantic_ai", "openai_agents")
DEPLOY = """\
#!/bin/sh
echo "$1" >> deployed.txt
if [ "$1" = db ] && ! [ -e killed ]; then touch killed; kill -9 $PPID; fi
echo "deployed on $1"
"""
"""A tool of the task `crash`: on its first call for `db`, it kills the process of the agent."""


class Task(NamedTuple):
    """A task: its turns at the simulator, the starts of the program, and the expected output of the last start."""

    description: str
    turns: tuple[Turn, ...]
    output: str
    starts: tuple[tuple[str, ...], ...] = ((),)
    """The arguments of each start. All starts share a directory."""
    then: End = "default"
    """What follows the last turn: by default, the results of the tools."""
    when: str = ""
    """A text that the conversation must contain."""
    is_test: bool = False
    """Whether pytest starts the program."""
    deployed: str = ""
    """The file that the tool of `crash` writes, after the last start. The first start of this task is killed."""


HAIKU = "Old pond, a frog\nleaps in: the sound\nof water."
CITY = '{"name": "Oslo", "population": 717710}'
TASKS = {
    "stream": Task("print an answer as it arrives", (turn(say(HAIKU)),), HAIKU),
    "tool": Task("an agent with a tool", (turn(call("weather", {"city": "Oslo"})),), "12 degrees in Oslo"),
    "output": Task("an answer as an object", (turn(say(CITY)),), "Oslo 717710"),
    "approval": Task(
        "a tool that needs approval, given by another process",
        (turn(call("send_mail", {"to": "Ada", "text": "I am late."})),),
        "sent to Ada: I am late.",
        (("ask",), ("approve",)),
    ),
    "conversation": Task(
        "a conversation that continues in another process",
        (turn(say("Hello, Ada.")), turn(say("You are Ada."))),
        "You are Ada.",
        (("I am Ada.",), ("Who am I?",)),
    ),
    "crash": Task(
        "`kill -9` in the middle of a tool; the next start finishes the work and repeats only this call",
        (turn(call("deploy", {"host": "web"})), turn(call("deploy", {"host": "db"})), turn(say("It is live."))),
        "It is live.",
        ((), ()),
        deployed="web\ndb\ndb\n",
    ),
    "switch": Task(
        "another provider in the middle of a conversation, and back",
        (turn(think("Small."), say("2")), turn(say("3")), turn(think("Next."), say("5"))),
        "5",
    ),
    "dependencies": Task(
        "tools and instructions that use an object of the application",
        (turn(call("price", {"item": "lamp"})),),
        "12.5 USD",
        when="You work for Lamps and more.",
    ),
    "limits": Task(
        "a limit on the cost of a run, and 3 retries while the provider is busy",
        (turn(deny(429, retry_after=0), deny(503, retry_after=0), call("search", {"query": "frogs"})),),
        "too expensive",
        then="repeat",
    ),
    "test": Task("a test of an agent, without network", (), "1 passed", is_test=True),
}
GAPS = {("limits", "openai_agents"): "openai-agents limits the turns of a run, not its cost"}
"""The tasks that a library cannot do, with the reason."""


def count_lines(program: Path) -> int:
    """Return the number of lines that are neither blank nor comments."""
    lines = map(str.strip, program.read_text("utf-8").splitlines())
    return sum(1 for line in lines if line and not line.startswith("#"))


def run_task(name: str, library: str, python: str | Path = sys.executable) -> str:
    """Run a program against a simulator of its own; return an empty text, or what went wrong."""
    task, program = TASKS[name], PROGRAMS / name / f"{library}.py"
    with tempfile.TemporaryDirectory() as directory, Simulator() as sim:
        script = Path(directory, "deploy.sh")
        script.write_text(DEPLOY)
        script.chmod(0o755)
        if task.turns:
            sim.script(*task.turns, when=task.when, then=task.then)
        for number, arguments in enumerate(task.starts):
            process = _start(task, [str(program), *arguments], python, directory, sim)
            output, is_killed = process.stdout.strip(), bool(task.deployed) and number == 0
            if process.returncode != (-signal.SIGKILL if is_killed else 0):
                return f"exit code {process.returncode}, output {output!r}, {process.stderr[-2000:]}"
        if task.output != output and not (task.is_test and task.output in output):
            return f"output {output!r}"
        file = Path(directory, "deployed.txt")
        if task.deployed and task.deployed != file.read_text("utf-8"):
            return f"deployed: {file.read_text('utf-8').split()}"
        if sim.refusals or bool(task.turns) != bool(sim.requests):
            return f"requests: {len(sim.requests)}, refused: {sim.refusals}"
    return ""


def _start(
    task: Task, program: list[str], python: str | Path, directory: str, sim: Simulator
) -> subprocess.CompletedProcess[str]:
    variables = {
        **make_variables(),
        **dict.fromkeys(("OPENAI_API_KEY", "ANTHROPIC_API_KEY"), "none"),
        "OPENAI_BASE_URL": f"{sim.base_url}/v1",
        "ANTHROPIC_BASE_URL": sim.base_url,
        "OPENAI_AGENTS_DISABLE_TRACING": "1",
        "TENUTO_HOME": directory,
    }
    options = ["--import-mode=importlib", "-p", "no:cacheprovider", "-c", os.devnull, "--rootdir", directory]
    test = ["-m", "pytest", "-q", *options] if task.is_test else []
    # -P: the directory of the program has files with the names of the libraries
    return subprocess.run(
        [str(python), "-P", *test, *program],
        cwd=directory,
        env=variables,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
