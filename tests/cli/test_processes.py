"""The command as a process that is killed, stopped or limited, and `tenuto sim`; nothing is a terminal."""

from __future__ import annotations

import json
import re
import signal
import socket
import subprocess
import sys
import urllib.request

import pytest

from tenuto.testing import call, say, stall, think, turn

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="there are no signals that can be caught")
LOOK, ACT, DEAF = (("-T", f"tools:{name}") for name in ("look", "act", "deaf"))


def end(process):
    out, err = process.communicate(timeout=30)
    return process.returncode, out, err


def page(tenuto, *session):
    """Return a session as it is shown, without the two lines that name it."""
    return tenuto.look("show", *session).split("\n", 2)[2]


def test_killed_stream_is_answered_the_same_later(here, tenuto, tenuto_sim):
    tenuto_sim.script(turn(think("Hm, hm."), stall(times=1), say("The whole answer.")))
    running = tenuto.start("run", "Tell me.", "--show-thinking")
    assert "Hm, hm." == running.stderr.read(7)
    running.kill()
    running.communicate()
    done = here("resume", "--store", tenuto.store)
    uncut = here("run", "Tell me.", "--store", tenuto.store)

    assert (0, "The whole answer.\n") == done[:2] == uncut[:2]
    assert page(tenuto, "~1") == page(tenuto, "last")
    tenuto_sim.assert_clean()


def test_kill_in_a_tool_gives_each_call_one_result(tenuto, tenuto_sim, calls):
    """A pure tool runs again; the result of another one is unknown."""
    tenuto_sim.script(turn(call("look", {"at": "it"}), call("act", {"on": "it"})), turn("Done."))
    running = tenuto.start("run", "Go!", *LOOK, *ACT)
    calls()
    running.kill()
    running.communicate()
    (tenuto.folder / "go").touch()
    listed = tenuto.run("sessions")
    done = tenuto.run("resume", *LOOK, *ACT)

    assert "  interrupted  " in listed.out
    assert (0, "Done.\n") == done[:2]
    assert '> look at="it" (attempt 2)' in done.err
    assert "< look: it is there" in done.err
    assert "! act [interrupted]: act was interrupted: no result was recorded" in done.err
    tenuto_sim.assert_clean()


@pytest.mark.parametrize(
    "name, code, options",
    [
        ("SIGINT", 130, ()),
        ("SIGHUP", 129, ()),
        ("SIGTERM", 143, ("--out", "answer.txt")),
        ("SIGINT", 130, ("--jsonl",)),
    ],
)
def test_signal_cancels_the_run_and_prints_a_hint(tenuto, tenuto_sim, calls, name, code, options):
    """JSON lines end with the result; a file is unchanged."""
    (tenuto.folder / "answer.txt").write_text("before")
    tenuto_sim.script(turn(call("look", {"at": "it"})))
    running = tenuto.start("run", "Go!", *LOOK, *options)
    calls()
    running.send_signal(getattr(signal, name))
    ended, out, err = end(running)

    assert code == ended
    assert re.fullmatch(
        r"(> .*\n)?(stopping .*\n)?stopped; session saved\nresume with: tenuto resume 01\w{10} -T tools:look\n", err
    )
    assert "[cancelled]" in page(tenuto)
    assert "before" == (tenuto.folder / "answer.txt").read_text()
    if options == ("--jsonl",):
        last = json.loads(out.splitlines()[-1])
        assert ("result", 130, "cancelled") == (last["type"], last["exit_code"], last["status"])
    else:
        assert "" == out


def test_second_interrupt_exits_at_once(tenuto, tenuto_sim, calls):
    tenuto_sim.script(turn(call("deaf", {"on": "it"})))
    running = tenuto.start("run", "Go!", *DEAF)
    calls()
    running.send_signal(signal.SIGINT)
    calls()  # the tool ignores the cancellation
    running.send_signal(signal.SIGINT)
    code, _, err = end(running)

    assert 130 == code
    assert "Ctrl-C again to quit now" in err
    assert "[cancelled]" not in page(tenuto)


def test_session_in_use_is_refused_and_taken_over(tenuto, tenuto_sim, calls):
    """The message names the process and the option; the session can be shown meanwhile."""
    tenuto_sim.script(turn(call("look", {"at": "it"})), turn("Done."))
    running = tenuto.start("run", "Go!", *LOOK)
    calls()
    refused = tenuto.run("resume", *LOOK)
    shown, listed = tenuto.look("show"), tenuto.look("sessions")
    (session,) = re.findall(r"tenuto resume (\S+) --takeover", refused.err)
    taking = tenuto.start("resume", session, "--takeover", *LOOK)
    calls()
    (tenuto.folder / "go").touch()  # both processes continue; only one may write
    lost, done = end(running), end(taking)

    assert (7, "") == refused[:2] == lost[:2]
    assert f"is in use by process {running.pid} on " in refused.err
    assert f"running ({running.pid}@" in shown
    assert "running" in listed
    assert (0, "Done.\n") == done[:2]
    assert "another process took it over" in lost[2]
    assert "Traceback" not in lost[2] + done[2]


def test_full_disk_is_one_message_and_resumable(here, tenuto, tenuto_sim):
    """A limit on the size of files takes the place of a full disk."""
    resource = pytest.importorskip("resource")
    tenuto_sim.script(turn("One."), turn("Two."))
    here("run", "Hi", "--store", tenuto.store)
    limit = f"import os, sys, resource; resource.setrlimit({resource.RLIMIT_FSIZE}, (9000, 9000))"
    command = [sys.executable, "-c", f"{limit}; os.execv(sys.argv[1], sys.argv[1:])"]
    command += tenuto.command("resume", "last", "More!")
    tenuto.env["PYTHONDONTWRITEBYTECODE"] = "1"  # a compiled file would be cut off at the limit
    full = subprocess.run(command, env=tenuto.env, cwd=tenuto.folder, capture_output=True, text=True, check=False)
    done = here("resume", "last", "More!", "--store", tenuto.store)

    assert (7, "") == (full.returncode, full.stdout)
    assert re.match(r"error: '.*sessions\.db'", full.stderr)
    assert "Traceback" not in full.stderr
    assert len(full.stderr.splitlines()) <= 3
    assert (0, "Two.\n") == done[:2]


@pytest.mark.parametrize(
    "option, start, last", [("-q", "line\n", "completed"), ("--jsonl", '{"seq":1,', "[cancelled]\n")]
)
def test_broken_pipe_keeps_the_session(tenuto, tenuto_sim, tools, option, start, last):
    """As with `| head -1`: an answer is received to its end, JSON lines end the run."""
    (tenuto.folder / "go").touch()
    tenuto_sim.script(turn(call("look", {"at": "it"})), turn(say("line\n" * 100_000)), turn("Done."))
    running = tenuto.start("run", "Go on for ever.", option, *LOOK)
    assert start == running.stdout.read(len(start))
    running.stdout.close()
    err = running.stderr.read()

    assert (141, "") == (running.wait(30), err)
    assert last in (tenuto.look("sessions") if option == "-q" else page(tenuto))


def test_sim_serves_until_ctrl_c(tenuto, tmp_path):
    (tmp_path / "script.json").write_text('{"turns": [[{"do": "say", "text": "scripted"}]]}')
    terminal = tenuto.terminal("sim", "--script", "script.json")
    url = terminal.expect(r"listening at (\S+)\r(.|\n)*Press Ctrl-C to stop").partition("listening at ")[2].split()[0]
    body = json.dumps({"model": "claude-opus-4-6", "max_tokens": 50, "messages": [{"role": "user", "content": "Hi"}]})
    with urllib.request.urlopen(f"{url}/v1/messages", body.encode()) as response:
        assert "scripted" == json.load(response)["content"][0]["text"]
    terminal.type("\x03")
    code, screen = terminal.end()

    assert 0 == code
    assert f"export TENUTO_SIM_URL={url}\n" in screen
    assert "POST /v1/messages anthropic claude-opus-4-6 200" in screen


def test_sim_serves_on_a_port_quietly(here, tenuto, monkeypatch):
    """A port in use is an error."""
    with socket.create_server(("127.0.0.1", 0)) as held:
        port = str(held.getsockname()[1])
        refused = here("sim", "--port", port)
    process = tenuto.start("sim", "--quiet", "--port", port)
    first = process.stdout.readline()
    urllib.request.urlopen(f"http://127.0.0.1:{port}/v1/models").close()
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=20)

    assert first == f"tenuto.sim is listening at http://127.0.0.1:{port}\n"
    assert (0, "") == (process.returncode, errors)
    assert (2, "") == refused[:2]
    assert f"error: port {port} cannot be used: " in refused.err
    monkeypatch.setenv("TENUTO_SIM_PACE", "soon")
    assert "invalid pause 'soon'" in here("sim").err


def test_sim_rules_equal_the_documentation(here):
    from tenuto.rules.page import rules_page

    assert (0, rules_page(), "") == here("sim", "--rules")
