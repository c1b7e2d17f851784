"""The command as a process that is killed, stopped, crowded out and cut off; nothing is a terminal."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys

import pytest

from tenuto.testing import call, say, stall, think, turn

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="there are no signals that can be caught")
TOOLS = '''
import asyncio
from pathlib import Path

from tenuto import tool

def begun():
    """Say that a call has begun to whoever waits for it, unless nobody does any more."""
    if not Path("go").exists():
        with open("begun", "w"):
            pass

async def waited():
    while not Path("go").exists():
        await asyncio.sleep(0.01)

@tool(effect="pure")
async def look(at: str) -> str:
    """Look."""
    begun()
    await waited()
    return f"{at} is there"

@tool
async def act(on: str) -> str:
    """Act."""
    await waited()
    return f"{on} is done"

@tool
async def deaf(on: str) -> str:
    """Act, whatever is said."""
    begun()
    try:
        await waited()
    except asyncio.CancelledError:
        with open("begun", "w"):
            pass
        await asyncio.sleep(60)
        raise
    return f"{on} is done"
'''
LOOK, ACT, DEAF = (("-T", f"tools:{name}") for name in ("look", "act", "deaf"))


@pytest.fixture
def folder(tenuto):
    """The folder, with tools that say when they begin and wait until they may go on."""
    (tenuto.folder / "tools.py").write_text(TOOLS)
    os.mkfifo(tenuto.folder / "begun")
    return tenuto.folder


def wait_for_tool(folder):
    (folder / "begun").read_text()  # opens when the tool does


def ended(process):
    out, err = process.communicate(timeout=30)
    return process.returncode, out, err


def page(tenuto, *session):
    """A session as it is shown, without the lines that say which one it is."""
    return tenuto.look("show", *session).split("\n", 2)[2]


def test_killed_in_mid_stream_it_answers_the_same_later(here, tenuto, tenuto_sim):
    tenuto_sim.script(turn(think("Hm, hm."), stall(times=1), say("The whole answer.")))
    running = tenuto.start("run", "Tell me.", "--show-thinking")
    assert "Hm, hm." == running.stderr.read(7)
    running.kill()
    out, _ = running.communicate()

    done = here("resume", "--store", tenuto.store)
    uncut = here("run", "Tell me.", "--store", tenuto.store)

    assert "" == out
    assert (0, "The whole answer.\n") == done[:2] == uncut[:2]
    assert page(tenuto, "~1") == page(tenuto, "last")
    tenuto_sim.assert_clean()


def test_kill_in_a_tool_gives_each_call_one_result(tenuto, tenuto_sim, folder):
    """What only looks is run again; what acts is not, and says that nobody knows."""
    tenuto_sim.script(turn(call("look", {"at": "it"}), call("act", {"on": "it"})), turn("Done."))
    running = tenuto.start("run", "Go!", *LOOK, *ACT)
    wait_for_tool(folder)
    running.kill()
    running.communicate()
    (folder / "go").touch()
    listed = tenuto.run("sessions")

    done = tenuto.run("resume", *LOOK, *ACT)

    assert "  interrupted  " in listed.out
    assert (0, "Done.\n") == done[:2]
    assert '> look at="it" (attempt 2)' in done.err
    assert "< look: it is there" in done.err
    assert "! act [interrupted]: act was interrupted: no result was recorded" in done.err
    tenuto_sim.assert_clean()


@pytest.mark.parametrize("name, code", [("SIGINT", 130), ("SIGHUP", 129)])
def test_signal_cancels_the_run_and_prints_a_hint(tenuto, tenuto_sim, folder, name, code):
    tenuto_sim.script(turn(call("look", {"at": "it"})))
    running = tenuto.start("run", "Go!", *LOOK)
    wait_for_tool(folder)
    running.send_signal(getattr(signal, name))
    out, err = running.communicate(timeout=30)

    assert (code, "") == (running.returncode, out)
    assert "stopped; session saved\nresume with: tenuto resume 01" in err
    assert "Traceback" not in err
    assert "[cancelled]" in page(tenuto)


def test_second_interrupt_exits_at_once(tenuto, tenuto_sim, folder):
    tenuto_sim.script(turn(call("deaf", {"on": "it"})))
    running = tenuto.start("run", "Go!", *DEAF)
    wait_for_tool(folder)
    running.send_signal(signal.SIGINT)
    wait_for_tool(folder)  # it was told, and does not care
    running.send_signal(signal.SIGINT)
    _, err = running.communicate(timeout=30)

    assert 130 == running.returncode
    assert "Ctrl-C again to quit now" in err
    assert "[cancelled]" not in page(tenuto)


def test_session_in_use_is_refused_and_taken_over(tenuto, tenuto_sim, folder):
    """The message names the process and what to type; it can be looked at meanwhile; the loser is told."""
    tenuto_sim.script(turn(call("look", {"at": "it"})), turn("Done."))
    running = tenuto.start("run", "Go!", *LOOK)
    wait_for_tool(folder)
    refused = tenuto.run("resume", *LOOK)
    shown, listed = tenuto.look("show"), tenuto.look("sessions")
    (taken,) = re.findall(r"tenuto resume (\S+) --takeover", refused.err)
    taking = tenuto.start("resume", taken, "--takeover", *LOOK)
    wait_for_tool(folder)
    (folder / "go").touch()  # both may go on; only one may write
    lost, done = ended(running), ended(taking)

    assert (7, "") == refused[:2]
    assert f"is in use by process {running.pid} on " in refused.err
    assert f"running ({running.pid}@" in shown
    assert "running" in listed
    assert (0, "Done.\n") == done[:2]
    assert (7, "") == lost[:2]
    assert "another process took it over" in lost[2]
    assert "Traceback" not in lost[2] + done[2]


def test_full_disk_is_one_message_and_resumable(here, tenuto, tenuto_sim):
    """A limit on the size of files stands for it: no more can be written to the store."""
    resource = pytest.importorskip("resource")
    tenuto_sim.script(turn("One."), turn("Two."))
    here("run", "Hi", "--store", tenuto.store)
    limited = f"import os, sys, resource; resource.setrlimit({resource.RLIMIT_FSIZE}, (9000, 9000)); os.execv(sys.argv[1], sys.argv[1:])"
    command = [sys.executable, "-c", limited, *tenuto.command("resume", "last", "More!")]
    full = subprocess.run(command, env=tenuto.env, cwd=tenuto.folder, capture_output=True, text=True, check=False)
    done = here("resume", "last", "More!", "--store", tenuto.store)

    assert (7, "") == (full.returncode, full.stdout)
    assert re.match(r"error: '.*sessions\.db'", full.stderr)
    assert "Traceback" not in full.stderr
    assert len(full.stderr.splitlines()) <= 3
    assert (0, "Two.\n") == done[:2]


def test_broken_pipe_completes_the_session(tenuto, tenuto_sim):
    """As with `| head -1`: quiet, and the session is whole."""
    tenuto_sim.script(turn(say("line\n" * 100_000)))
    running = tenuto.start("run", "Go on for ever.", "-q")
    assert "line\n" == running.stdout.readline()
    running.stdout.close()
    err = running.stderr.read()

    assert (141, "") == (running.wait(30), err)
    assert "completed" in tenuto.look("sessions")


def test_broken_pipe_of_jsonl_cancels_the_run(tenuto, tenuto_sim, folder):
    """The pipe breaks while the model talks: the session says that the run was cancelled, and can go on."""
    tenuto_sim.script(turn(call("look", {"at": "it"})), turn(say("line\n" * 2_000)), turn("Done."))
    (folder / "go").touch()
    running = tenuto.start("run", "Go!", *LOOK, "--jsonl")
    assert '{"seq":1,' == running.stdout.read(9)
    running.stdout.close()
    err = running.stderr.read()

    assert (141, "") == (running.wait(30), err)
    assert page(tenuto).endswith("[cancelled]\n")


def test_signal_ends_jsonl_with_the_result(tenuto, tenuto_sim, folder):
    tenuto_sim.script(turn(call("look", {"at": "it"})), turn("Done."))
    (folder / "answer.txt").write_text("before")
    lines = tenuto.start("run", "Go!", *LOOK, "--jsonl")
    wait_for_tool(folder)
    lines.send_signal(signal.SIGINT)
    code, out, err = ended(lines)
    last = json.loads(out.splitlines()[-1])
    filed = tenuto.start("run", "Go!", *LOOK, "--out", "answer.txt")
    wait_for_tool(folder)
    filed.send_signal(signal.SIGTERM)
    stopped = ended(filed)

    assert (130, "result", 130, "cancelled") == (code, last["type"], last["exit_code"], last["status"])
    resume = f"resume with: tenuto resume {last['session'][:12]} -T tools:look\n"
    assert err == f"stopped; session saved\n{resume}"
    assert (143, "") == stopped[:2]
    assert "stopped; session saved\nresume with: tenuto resume 01" in stopped[2]
    assert "before" == (folder / "answer.txt").read_text()
