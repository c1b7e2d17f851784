"""`shell`: environment, output, exit code, and the end of all its processes."""

from __future__ import annotations

import asyncio
import json
import os
import select
import signal
import subprocess
import sys
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenuto.catalog import PROVIDERS
from tenuto.tools import Toolbox, builtin_tools
from tenuto.tools.builtin.shell import CapturedOutput, command_environment
from tools.calls import call, prepare_and_run, run

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="commands of a Unix shell")


def shell(root, command, *, seconds=20.0, env=None, **arguments):
    tools = builtin_tools(root, names=["shell"], shell_timeout=seconds, env=env).values()
    return run(tools, call("shell", command=command, **arguments))


@pytest.mark.parametrize(
    "command, output",
    [
        ("echo out; echo err >&2; echo out", "out\nerr\nout\n[exit code 0]"),
        ("printf x; exit 3", "x\n[exit code 3]"),
        ("true", "[exit code 0]"),
        ("cat", "[exit code 0]"),  # there is no input
        ("kill -9 $$", "[ended by SIGKILL]"),
        (r"printf 'caf\351\033[0m'", "caf\ufffd\x1b[0m\n[exit code 0]"),
    ],
)
def test_shell_returns_output_and_exit_code(tmp_path, command, output):
    outcome = shell(tmp_path, command)

    assert (outcome.result.content, outcome.outcome) == (output, "done")


def test_command_runs_in_the_root(tmp_path):
    assert shell(tmp_path, "pwd -P").result.content == f"{tmp_path.resolve()}\n[exit code 0]"


def test_invalid_command_is_refused(tmp_path):
    for command in ("", " ", "a\0b"):
        assert shell(tmp_path, command).detail == "exception"
    assert shell(tmp_path, "true", timeout=0).detail == "arguments"


# --- end of processes ------------------------------------------------------------------------------------------------


def running(tmp_path):
    """Return the processes that wrote their ids and are still running."""
    return [one for one in map(int, (tmp_path / "ids").read_text().split()) if not _ends(one)]


def _ends(one):
    try:
        handle = os.pidfd_open(one)
    except ProcessLookupError:
        return True
    ended, _, _ = select.select([handle], [], [], 10)  # a killed process may need a moment to end
    os.close(handle)
    return bool(ended)


needs_handles = pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="this system has no pidfd_open")


@needs_handles
@pytest.mark.parametrize("trap", ["", "trap '' TERM; "])
def test_process_group_is_killed_on_timeout(tmp_path, trap):
    """Also if it ignores SIGTERM."""
    command = f"{trap}(echo $$ >> ids; sleep 60) & echo $! >> ids; echo begun; sleep 60"

    outcome = shell(tmp_path, command, seconds=0.5)

    assert outcome.result.content.startswith("begun\n[timed out after 0.5 s and was killed")
    assert (outcome.outcome, outcome.result.is_error) == ("failed", True)
    assert running(tmp_path) == []


@needs_handles
def test_command_that_closes_its_output_is_killed_on_timeout(tmp_path):
    outcome = shell(tmp_path, "exec >&- 2>&-; echo $$ > ids; sleep 60 & echo $! >> ids; wait", seconds=0.5)

    assert outcome.result.content.startswith("[timed out after 0.5 s and was killed")
    assert running(tmp_path) == []


@needs_handles
def test_process_group_is_killed_on_cancel(tmp_path):
    async def go():
        os.mkfifo(tmp_path / "ready")
        box = Toolbox(builtin_tools(tmp_path, names=["shell"]).values())
        command = "sleep 60 & echo $! >> ids; echo $$ >> ids; echo > ready; wait"
        task = asyncio.create_task(prepare_and_run(box, call("shell", command=command)))
        await asyncio.to_thread((tmp_path / "ready").read_text)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return running(tmp_path)

    assert asyncio.run(go()) == []


@needs_handles
def test_background_job_with_open_output_is_killed(tmp_path):
    outcome = shell(tmp_path, "sleep 60 & echo $! > ids; echo done")

    assert outcome.result.content.startswith("done\n[its background jobs were killed")
    assert running(tmp_path) == []


SENDS = """
import asyncio, sys
from tenuto import ToolCallView
from tenuto.tools import Toolbox, builtin_tools

tools = builtin_tools(sys.argv[1], names=["shell"], approval=False)
asyncio.run(Toolbox(tools.values()).dispatch(ToolCallView("1", "shell", sys.argv[2])))
"""


def until(condition):
    """Wait until the condition is true."""
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@needs_handles
@pytest.mark.parametrize("trap", ["", "trap '' TERM HUP; "])
def test_command_dies_when_its_process_is_killed(tmp_path, trap):
    command = f"{trap}echo $$ >> ids; (echo $(exec sh -c 'echo $PPID') >> ids; sleep 300) & sleep 300"
    arguments = json.dumps({"command": command})
    with subprocess.Popen([sys.executable, "-c", SENDS, str(tmp_path), arguments]) as owner:
        until(lambda: (tmp_path / "ids").exists() and len((tmp_path / "ids").read_text().split()) == 2)
        owner.send_signal(signal.SIGKILL)

    assert running(tmp_path) == []


def test_background_job_outlives_its_command(tmp_path):
    """Unless it still has the command's output open."""
    os.mkfifo(tmp_path / "fifo")
    outcome = shell(tmp_path, "(read line < fifo; echo $line > heard) > /dev/null 2>&1 &")
    assert outcome.result.content == "[exit code 0]"
    with (tmp_path / "fifo").open("w") as fifo:
        fifo.write("hello\n")

    until(lambda: (tmp_path / "heard").exists() and (tmp_path / "heard").read_text() == "hello\n")


def test_model_cannot_raise_the_timeout(tmp_path):
    assert "timed out after 0.3 s" in shell(tmp_path, "sleep 60", seconds=0.3, timeout=100).result.content


# --- output -----------------------------------------------------------------------------------------------------------


def test_middle_of_long_output_is_omitted(tmp_path):
    text = shell(tmp_path, "echo first; head -c 3000000 /dev/zero | tr '\\0' x; echo last").result.content

    assert text.startswith("first\nxxx")
    assert text.endswith("xxxlast\n[exit code 0]")
    assert "of 3,000,011 bytes omitted: write the output to a file" in text
    assert len(text) < 50_000


@given(st.lists(st.binary(max_size=12), max_size=8), st.integers(1, 10))
def test_captured_output_does_not_depend_on_chunks(pieces, room):
    one, many, whole = CapturedOutput(room), CapturedOutput(room), b"".join(pieces)
    one.add(whole)
    for piece in pieces:
        many.add(piece)

    assert one.text() == many.text()
    assert (len(whole) > 2 * room) == ("bytes omitted" in one.text())
    assert len(whole) > 2 * room or one.text() == whole.decode("utf-8", "replace")


# --- the environment --------------------------------------------------------------------------------------------------

SECRET = "made-up-secret"


@pytest.mark.parametrize(
    "name",
    [
        *("MY_API_KEY", "GITHUB_TOKEN", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "DB_PASSWORD", "PGPASSWORD"),
        *("GOOGLE_APPLICATION_CREDENTIALS", "TENUTO_HOME", "SSH_AUTH_SOCK", "npm_config__authToken", "SENTRY_DSN"),
        *("SSHPASS", "MYSQL_PWD", "DB_PW", "LDAP_BINDPW", "AZURE_STORAGE_CONNECTION_STRING", "SLACK_WEBHOOK_URL"),
        *(
            "APPKEY",
            "ACCESSKEY",
            "MASTERKEY",
            "STRIPE_SK",
            "BEARER",
            "AUTHORIZATION",
            "PGPASS",
            "SMTPPASS",
            "OPENAI_KEY2",
        ),
        *("GIT_REMOTE", "http_proxy", "DATABASE_URL", "ANYTHING"),
    ],
)
def test_command_does_not_see_variable(name):
    assert command_environment({name: "x", "PATH": "/bin"}) == {"PATH": "/bin"}


def test_command_does_not_see_provider_keys():
    names = {name for row in PROVIDERS.values() for name in (*row.key_env, *row.bearer_env)}

    assert names
    assert command_environment(dict.fromkeys(names, SECRET)).keys() == {"PATH"}


@pytest.mark.parametrize("name", ["PATH", "HOME", "LANG", "LC_ALL", "TERM", "TZ", "TMPDIR", "VIRTUAL_ENV"])
def test_command_sees_allowed_variable(name):
    assert command_environment({name: "x"})[name] == "x"


def test_command_sees_variables_of_pass_env(tmp_path):
    env = {"PATH": os.defpath, "MY_TOKEN": SECRET, "MY_NAME": "me", "CARGO_A": "1", "CARGO_B": "2", "OTHER": "no"}
    tools = builtin_tools(tmp_path, names=["shell"], env=env, pass_env=["MY_NAME", "CARGO_*"]).values()
    shown = run(tools, call("shell", command="env")).result.content

    assert {"MY_NAME=me", "CARGO_A=1", "CARGO_B=2"} <= set(shown.splitlines())
    assert SECRET not in shown
    assert "OTHER" not in shown


def test_pass_env_refuses_a_single_string(tmp_path):
    with pytest.raises(TypeError, match="single string"):
        builtin_tools(tmp_path, pass_env="HOME")


def test_command_sees_only_path_without_env(tmp_path, monkeypatch):
    monkeypatch.setenv("HARMLESS", "here")

    assert "HARMLESS" not in shell(tmp_path, "env").result.content
