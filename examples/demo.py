"""A session is killed in mid-tool, resumed, handed to another provider and back; no key is needed (`make demo`)."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

TOOL = "-T examples.demo_tools:weather"
STEPS = {
    "A model thinks, and calls two tools at once. One of them kills the process:":
        f'tenuto run "Weather in Oslo and Bergen?" -m sim/anthropic {TOOL}',
    "A new process goes on where the old one was. Nothing is asked again that was answered:":
        f"tenuto resume last {TOOL}",
    "Another provider takes over. What only the first can read stays behind, on the books:":
        "tenuto handover last sim/openai",
    "It goes on from there, with reasoning and tokens of its own:":
        f'tenuto resume last "And in Paris?" {TOOL}',
    "And back:":
        "tenuto handover last sim/anthropic",
    "The first provider looks at each signature it gave, and would refuse one that had changed:":
        f'tenuto resume last "And in Rome?" {TOOL}',
    "Every request that was sent can be made again, byte for byte; so it can be said what the next one will hold:":
        "tenuto audit",
}  # fmt: skip

with tempfile.TemporaryDirectory() as folder:
    env = {**os.environ, "TENUTO_HOME": folder, "PYTHONPATH": str(Path(__file__).parent.parent)}
    bold, plain = ("\x1b[1m", "\x1b[0m") if sys.stdout.isatty() and not env.get("NO_COLOR") else ("", "")
    for number, (says, command) in enumerate(STEPS.items(), 1):
        print(f"\n{bold}{number}. {says}{plain}\n$ {command}", flush=True)
        run = [sys.executable, "-m", *shlex.split(command)]
        done = subprocess.run(run, cwd=folder, env=env, check=False, stderr=subprocess.STDOUT)
        if (done.returncode != 0) != (number == 1):  # the first is killed, and no other
            sys.exit(f"this should not have happened: it ended with {done.returncode}")
print(f"\n{bold}Killed once, handed over twice: nothing was lost, nothing was refused.{plain}")
