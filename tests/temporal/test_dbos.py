"""The recipe for DBOS: a process that is killed in a tool is started again, and continues."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

import real_postgres
from tenuto import Agent
from tenuto.core.journal import CallFinished, MessageAdded
from tenuto.testing import Simulator, call, turn

pytestmark = pytest.mark.timeout(120)


@pytest.fixture
def postgres(tmp_path_factory):
    with real_postgres.using(tmp_path_factory.getbasetemp().parent / "postgres-temporal") as server:
        yield server


def test_killed_workflow_continues(postgres):
    prompts = ["Refund A-17.", "Thank you."]
    command = [sys.executable, "-m", "examples.temporal.dbos_session", "s", *prompts]
    with Simulator() as simulator:
        simulator.script(turn(call("refund", {"order": "A-17"})), turn("Unknown."), turn("You are welcome."))
        environment = {
            **os.environ,
            "SIMULATOR": simulator.base_url,
            "TENUTO_STORE": postgres.url("dbos_sessions"),
            "DBOS_DATABASE": postgres.url(),
            "REFUND_SECONDS": "60",
        }
        with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as first:
            line = first.stdout.readline()
            first.kill()
        assert line.endswith("refund of A-17 begins\n")
        again = subprocess.run(command, check=False, env=environment, capture_output=True, text=True, timeout=90)
        assert again.returncode == 0, again.stderr
        assert again.stdout.splitlines()[-2:] == ["completed: Unknown.", "completed: You are welcome."]
        assert "begins" not in again.stdout
        with Agent("sim/anthropic", store=environment["TENUTO_STORE"]) as agent:
            entries = agent.resume("s").entries()
            assert [str(one.payload.message) for one in entries if isinstance(one.payload, MessageAdded)] == prompts
            assert [one.payload.outcome for one in entries if isinstance(one.payload, CallFinished)] == ["interrupted"]
