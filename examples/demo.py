"""`make demo`: a session is killed, resumed, audited and handed to another provider and back. Needs no key."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

from tenuto.sim.script import DEMO

TOOL = "-T examples.demo_tools:weather"
STEPS = {
    "The model thinks and calls a tool twice in parallel. The second call kills the process:":
        f"""tenuto run "Weather in Oslo and Bergen?" -m sim/anthropic {TOOL} -o 'extra_body={{"temperature": 0.5}}'""",
    "A new process continues. The finished call does not run again:": f"tenuto resume last {TOOL}",
    "Would another model accept this session? The audit names the rule that it breaks:":
        "tenuto audit last -m sim/anthropic/claude-opus-4-7",
    "Hand the session to another provider. What cannot be sent there is listed:": "tenuto handover last sim/openai",
    "The other provider continues, with reasoning and tokens of its own:": f'tenuto resume last "And in Paris?" {TOOL}',
    "Hand it back, and ask on. The first provider checks each signature that it issued:":
        f'tenuto resume last "Where should I go?" -m sim/anthropic {TOOL}',
    "Every request can be rebuilt, byte for byte:": "tenuto audit",
}  # fmt: skip
FAILING = (1, 3)  # the killed command, and the audit with a finding
with tempfile.TemporaryDirectory() as folder:
    env = {name: value for name, value in os.environ.items() if not name.startswith("TENUTO_")} | {
        "TENUTO_HOME": folder, "TENUTO_SIM_SCRIPT": str(DEMO), "PYTHONPATH": str(Path(__file__).parent.parent),
    }  # fmt: skip
    for number, (title, command) in enumerate(STEPS.items(), 1):
        print(f"\n{number}. {title}\n$ {command}", flush=True)
        call = [sys.executable, "-m", *shlex.split(command), *["--show-thinking"] * (TOOL in command)]
        done = subprocess.run(call, cwd=folder, env=env, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        print(re.sub(r"\b01[0-9a-z]{10,24}\b", "01...", done.stdout.decode()), end="", flush=True)  # session ids
        if (done.returncode != 0) != (number in FAILING):
            sys.exit(f"unexpected exit code {done.returncode}")
print("\nKilled once, handed over twice: each signature is back in its place.")
