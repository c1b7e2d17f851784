"""A walk over all commands: the right exit code, one clear message, no traceback, and nothing is lost."""

from __future__ import annotations

import io
import os
import pwd
import re
import sys
from contextlib import nullcontext, suppress
from pathlib import Path

import pytest

from cli.conftest import Done
from tenuto.cli.main import COMMANDS, main
from tenuto.testing import turn

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="uses what only other systems have")

MODEL = "-m sim/anthropic"
STORED = {
    "run": f"run Hi {MODEL}",
    "chat": f"chat {MODEL}",
    "resume": "resume last",
    "fork": "fork last",
    "sessions": "sessions",
    "compact": "compact last",
    "show": "show last",
    "export": "export last",
    "import": "import session.jsonl",
    "audit": "audit last",
    "handover": "handover last sim/openai",
    "doctor": "doctor",
    "sessions search": "sessions search Hi",
    "sessions rename": "sessions rename last trip",
    "sessions archive": "sessions archive last",
    "sessions rm": "sessions rm last --forks --yes",
    "store": "store stats",
    "store verify": "store verify",
    "store gc": "store gc",
}
"""The commands that read the store, each with arguments."""
OTHERS = {
    "models": "models",
    "providers": "providers",
    "embed": "embed --text Hi -m sim/openai",
    "tools": "tools",
    "keys": "keys list",
    "config": "config show",
    "sim": "sim --rules",
    "completion": "completion bash",
    "keys set": "keys set anthropic",
    "keys rm": "keys rm anthropic",
    "config set": "config set model sim/openai",
}
ALL = {name: tuple(line.split()) for name, line in (STORED | OTHERS).items()}
HELP = {"help": ("--help",), "run help": ("run", "--help"), "version": ("--version",)}
NAMING = {
    **dict.fromkeys(
        ["resume", "compact", "show", "fork", "export", "audit", "chat", "store verify", "sessions archive"], ()
    ),
    "handover": ("sim/openai",),
    "sessions rename": ("x",),
    "sessions rm": ("--yes",),
}
"""The commands that take a session, with their further arguments."""


def test_walk_has_every_command():
    assert set(COMMANDS) <= set(ALL)


def check_error(done, code, *patterns):
    """Make sure that there is one clear message: what happened, and what to do, on one line each or on one."""
    found = re.findall(r"^error: .+\n(?:  \S.*\n)?", done.err, re.MULTILINE)
    assert code == done.code, done
    assert 1 == len(found), done.err
    assert re.search(r"\n  |\nresume with|did you mean|: name |choose another|copy (it|both) away", done.err), done.err
    assert not re.search(r"Traceback|\[Errno|<class|Error\(|went wrong", done.err), done.err
    for pattern in patterns:
        assert re.search(pattern, found[0]), done.err


def walk(names, step):
    """Take a step for each name; report all failures."""
    wrong = {}
    for name in names:
        try:
            step(name)
        except AssertionError as exc:
            wrong[name] = str(exc)[:600]
    assert not wrong, "\n".join(f"{name}: {what}" for name, what in wrong.items())


@pytest.fixture
def kept(here, tenuto_sim, tmp_path, monkeypatch):
    """The command, with a session in a file, and the same exported."""
    monkeypatch.setenv("TENUTO_STORE", str(tmp_path / "sessions.db"))
    tenuto_sim.script(turn("Hello."))
    here("run", "Hi", *MODEL.split(), "-q")
    (tmp_path / "session.jsonl").write_text(here("export", "last").out)
    tenuto_sim.script()
    return here


def test_unknown_option_is_code_2(here):
    def step(name):
        done = here(*name.split(), "--nonsense")
        check_error(done, 2, r"No such option '--nonsense'", rf"\n  see: tenuto {name} --help$")
        assert "" == done.out

    walk(ALL, step)


def test_missing_session_is_code_7(kept, monkeypatch, tmp_path):
    """With other sessions, and without a store."""

    def step(name):
        done = kept(*name.split(), "nothere", *NAMING[name], stdin="")
        check_error(done, 7, "no session is called 'nothere'", "tenuto sessions|tenuto run")
        assert "" == done.out

    for _ in range(2):
        walk(NAMING, step)
        monkeypatch.setenv("TENUTO_STORE", str(tmp_path / "other.db"))
    assert not (tmp_path / "other.db").exists()


@pytest.fixture
def onto(monkeypatch, capfd):
    """Call the command in this process with another stdout, which is closed afterwards."""

    def call(stdout, *arguments):
        with monkeypatch.context() as patched, suppress(OSError), stdout or nullcontext():
            patched.setattr(sys, "stdout", stdout)
            patched.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"Hi\n")))
            capfd.readouterr()
            try:
                code = main(arguments)
            except SystemExit as exc:
                code = exc.code
        return Done(code, "", capfd.readouterr().err)

    return call


def broken_pipe():
    read, write = os.pipe()
    os.close(read)
    return os.fdopen(write, "w")


SILENT = ("keys", "keys set", "keys rm", "config set", "store gc", "sessions rm")
"""The commands that may print nothing, or have nothing to do a second time."""
WRITING = [name for name in ALL if name not in SILENT]


def test_broken_pipe_is_code_141(kept, onto):
    def step(name):
        done = onto(broken_pipe(), *(ALL | HELP)[name])
        assert 141 == done.code, done.err
        assert not re.search("error|Error|Traceback", done.err), done.err

    walk([*WRITING, *HELP], step)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="has no /dev/full")
def test_full_disk_on_stdout_is_reported(kept, onto):
    def step(name):
        done = onto(os.fdopen(os.open("/dev/full", os.O_WRONLY), "w"), *ALL[name])
        check_error(done, 1, r"stdout.*No space left on device")
        if name in ("run", "resume"):
            assert "tenuto resume" in done.err

    walk(WRITING, step)


def test_commands_work_without_streams(kept, onto, tenuto_sim, monkeypatch):
    """Without stdout, then also without stderr and stdin."""
    tenuto_sim.script(*(turn("Hello.") for _ in range(9)))

    def without_stdout(name):
        done = onto(None, *ALL[name])
        assert done.code in (0, 2), done.err
        assert not re.search("Traceback|Errno|Hello", done.err), done.err

    def without_stderr(name):
        assert kept(*ALL[name]).code in (0, 2)
        assert 2 == kept(*ALL[name], "--nonsense").code

    walk(ALL, without_stdout)
    for stream in ("stderr", "stdin"):
        monkeypatch.setattr(sys, stream, None)
    walk(ALL, without_stderr)
    assert 7 == kept("show", "nothere").code


def test_run_works_with_all_streams_closed(tenuto, tenuto_sim):
    """As a process: the next opened files get the numbers of the closed ones."""
    tenuto_sim.script(turn("Hello."))
    done = tenuto.run("run", "Hi", preexec_fn=lambda: [os.close(number) for number in (0, 1, 2)])

    assert (0, "", "") == done
    assert "Hello." in tenuto.look("show")
    assert "OK" in tenuto.look("store", "verify")


@pytest.mark.parametrize("sound_bytes", [0, 8192])
def test_damaged_store_is_code_7_and_unchanged(kept, tmp_path, sound_bytes):
    file = tmp_path / "sessions.db"
    content = file.read_bytes()
    damaged = content[:sound_bytes] + bytes(at * 7 % 251 for at in range(len(content) - sound_bytes))
    file.write_bytes(damaged)

    def step(name):
        done = kept(*ALL[name], stdin="Hi\n")
        assert damaged == file.read_bytes()
        if name == "doctor":
            assert 7 == done.code
            assert re.search(r"problem +store: .*sessions\.db", done.out)
        else:
            check_error(done, 7, r"sessions\.db.*(damaged|no SQLite database)")

    walk(STORED, step)


UNWRITABLE = {
    **dict.fromkeys([name for name in STORED if not name.startswith("store")], 7),
    **dict.fromkeys(["doctor", "sessions search", "keys set", "config set"], 1),
    "sessions": 0,
    "keys rm": 2,
}
"""The exit code of each command that does not work without a place for files."""


def test_unwritable_home_is_one_message(kept, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("in the way")
    monkeypatch.delenv("TENUTO_STORE")
    monkeypatch.setenv("TENUTO_HOME", str(tmp_path / "file" / "home"))

    def step(name):
        done = kept(*ALL[name], stdin="sk-secret\n")
        assert UNWRITABLE.get(name, 0) == done.code, done.err
        if done.code and name not in ("doctor", "sessions search"):
            check_error(done, done.code, r"file/home|no session|no key")
        assert "sk-secret" not in done.err or name in ("run", "chat")

    walk(ALL, step)


def test_missing_home_is_one_message(kept, monkeypatch):
    """No variable names a directory, and the system does not know the user, as in many containers."""
    for name in ("TENUTO_HOME", "TENUTO_STORE", "HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)

    def unknown(uid):
        raise KeyError(uid)

    def step(name):
        done = kept(*ALL[name], stdin="Hi\n")
        assert not re.search("Traceback|went wrong", done.err), done.err
        assert done.code in (0, 1, 2)
        if name == "doctor":
            assert "set HOME or TENUTO_HOME to your own directory" in done.out
        elif done.code:
            check_error(done, 2, "TENUTO_HOME")

    monkeypatch.setattr(pwd, "getpwuid", unknown)
    walk(ALL, step)
