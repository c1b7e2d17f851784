"""A walk through everything that can go wrong: the right exit code, one clear message, no traceback, nothing lost."""

from __future__ import annotations

import fcntl
import io
import json
import os
import pwd
import re
import struct
import sys
import termios
from contextlib import suppress
from pathlib import Path

import pytest

from tenuto.cli.main import COMMANDS, main
from tenuto.testing import call, deny, say, stall, think, turn

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="asks for what only other systems have")

MODEL = ("-m", "sim/anthropic")
EVERY = {
    "run": ("run", "Hi", *MODEL),
    "chat": ("chat", *MODEL),
    "resume": ("resume", "last"),
    "fork": ("fork", "last"),
    "sessions": ("sessions",),
    "compact": ("compact", "last"),
    "show": ("show", "last"),
    "export": ("export", "last"),
    "import": ("import", "session.jsonl"),
    "audit": ("audit", "last"),
    "handover": ("handover", "last", "sim/openai"),
    "models": ("models",),
    "providers": ("providers",),
    "embed": ("embed", "--text", "Hi", "-m", "sim/openai"),
    "tools": ("tools",),
    "store": ("store", "stats"),
    "keys": ("keys", "list"),
    "config": ("config", "show"),
    "sim": ("sim", "--rules"),
    "doctor": ("doctor",),
    "completion": ("completion", "bash"),
}
"""Each verb, so that it does something."""
BELOW = {
    "sessions search": ("sessions", "search", "Hi"),
    "sessions rename": ("sessions", "rename", "last", "trip"),
    "sessions archive": ("sessions", "archive", "last"),
    "sessions rm": ("sessions", "rm", "last", "--forks", "--yes"),
    "store stats": ("store", "stats"),
    "store verify": ("store", "verify"),
    "store gc": ("store", "gc"),
    "keys set": ("keys", "set", "anthropic"),
    "keys rm": ("keys", "rm", "anthropic"),
    "config set": ("config", "set", "model", "sim/openai"),
}
ALL = EVERY | BELOW
HELP = {"help": ("--help",), "run help": ("run", "--help"), "version": ("--version",)}
KEPT = (
    *(
        "run",
        "chat",
        "resume",
        "fork",
        "sessions",
        "compact",
        "show",
        "export",
        "import",
        "audit",
        "handover",
        "doctor",
    ),
    *("sessions search", "sessions rename", "sessions archive", "sessions rm", "store stats", "store verify"),
    "store gc",
)
"""Those that look into the store."""
NAMING = (
    *("resume", "compact", "show", "fork", "export", "audit", "handover", "chat"),
    *("sessions rename", "sessions archive", "sessions rm", "store verify"),
)
"""Those that are told a session."""


def test_walk_has_every_command():
    assert set(COMMANDS) == set(EVERY)


def told(done, code, *said):
    """Make sure that there is one clear message: what happened, and what to do, in a line each or in one."""
    found = re.findall(r"^error: .+\n(?:  \S.*\n)?", done.err, re.MULTILINE)
    assert code == done.code, done
    assert 1 == len(found), done.err
    assert re.search(r"\n  |\nresume with|did you mean|: name |choose another|copy (it|both) away", done.err), (
        f"what to do? {done.err}"
    )
    assert not re.search(r"Traceback|\[Errno|<class|Error\(|went wrong", done.err), done.err
    for pattern in said:
        assert re.search(pattern, found[0]), done.err


def walked(places, step):
    """Make a step everywhere; say where something was wrong."""
    wrong = {}
    for place in places:
        try:
            step(place)
        except AssertionError as exc:
            wrong[place] = str(exc)[:600]
    assert not wrong, "\n".join(f"{place}: {what}" for place, what in wrong.items())


@pytest.fixture
def kept(here, tenuto_sim, tmp_path, monkeypatch):
    """The command, with a session in a file, and the same as lines."""
    monkeypatch.setenv("TENUTO_STORE", str(tmp_path / "sessions.db"))
    tenuto_sim.script(turn("Hello."))
    here("run", "Hi", *MODEL, "-q")
    (tmp_path / "session.jsonl").write_text(here("export", "last").out)
    tenuto_sim.script()
    return here


# --- what is typed ----------------------------------------------------------------------------------------------------


def test_unknown_option_is_code_2(here):
    def step(verb):
        done = here(*verb.split(), "--nonsense")
        told(done, 2, r"No such option '--nonsense'", rf"\n  see: tenuto {verb} --help$")
        assert "" == done.out

    walked(ALL, step)


WORDS = {
    ("rnu", "Hi"): r"unknown command 'rnu'; did you mean run\?\n  see: tenuto --help",
    ("run", "Hi", "--modle", "x"): r"No such option '--modle'.*--model",
    ("store", "verfy"): r"verfy.*verify",
    ("run", "Hi", "--max-turns", "many"): r"'--max-turns'.*'many'",
    ("run", "Hi", "-T", "read_fil"): r"did you mean read_file",
    ("run", "Hi", "-T", "no_such_module:x"): r"no_such_module",
    ("run", "Hi", "-o", "temprature=1"): r"temprature.*did you mean temperature",
    ("run", "Hi", "--allow", "shell(git *"): r"NAME\(GLOB\)",
    ("run", "Hi", "--json", "--jsonl"): r"--json.*--jsonl",
    ("run", "Hi", "--session", "last", "-c"): r"--session|--continue|-c",
    ("config", "set", "modle", "x"): r"modle.*model",
    ("keys", "set", "antropic"): r"antropic.*anthropic",
    ("--profile", "nobody", "run", "Hi"): r"nobody",
    ("completion", "tcsh"): r"tcsh.*bash",
    ("show", "one", "two"): r"two",
    ("handover", "last"): r"MODEL",
}
"""What may be mistyped, and what is said of it."""


def test_mistyped_words_get_suggestions(here):
    walked(WORDS, lambda typed: told(here(*typed, stdin="x"), 2, WORDS[typed]))


def test_missing_session_is_code_7(here, kept, monkeypatch, tmp_path):
    """Where there are others, and where there is not even a store."""
    rest = {"handover": ("sim/openai",), "sessions rename": ("x",), "sessions rm": ("--yes",)}

    def step(verb):
        done = here(*verb.split(), "nothere", *rest.get(verb, ()), stdin="")
        told(done, 7, "no session is called 'nothere'", "tenuto sessions|tenuto run")
        assert "" == done.out

    for _ in range(2):
        walked(NAMING, step)
        monkeypatch.setenv("TENUTO_STORE", str(tmp_path / "other.db"))
    assert not (tmp_path / "other.db").exists()


# --- models and keys --------------------------------------------------------------------------------------------------


@pytest.fixture
def keyless(monkeypatch):
    for name in list(os.environ):
        if name.endswith(("_API_KEY", "_AUTH_TOKEN", "_TOKEN")):
            monkeypatch.delenv(name)


@pytest.mark.usefixtures("real_providers")
def test_missing_key_is_code_3_and_writes_nothing(here, keyless):
    """Nothing is begun without."""
    claude, vectors = "anthropic/claude-opus-4-6", "openai/text-embedding-3-small"
    for typed, variable in (
        (("run", "Hi", "-m", claude), "ANTHROPIC_API_KEY"),
        (("chat", "-m", claude), "ANTHROPIC_API_KEY"),
        (("embed", "--text", "Hi", "-m", vectors), "OPENAI_API_KEY"),
    ):
        told(here(*typed, stdin="Hi\n"), 3, "no API key for", variable)
    assert "no sessions yet" in here("sessions").err


def test_rejected_key_keeps_the_session(here, keyless, monkeypatch, tenuto_sim):
    """The session is kept, and goes on once the key is right."""
    monkeypatch.setenv("ANTHROPIC_API_KEY", "wrong")
    monkeypatch.setenv("ANTHROPIC_BASE_URL", tenuto_sim.base_url)
    tenuto_sim.script(turn(deny(401, times=1)), turn("Hello."))
    done = here("run", "Hi", "-m", "anthropic/claude-opus-4-6")
    told(done, 3, r"AuthenticationFailed|key", r"\n  .*key")
    assert "wrong" not in done.err

    assert (0, "Hello.\n") == here("resume")[:2]


MODELS = {
    "anthropc/claude-opus-4-6": r"anthropic",
    "gpt-oss-20b": r"no provider in .gpt-oss-20b.: use ollama/gpt-oss-20b",
    "gpt5": r"openai/gpt-5",
    "sim/antropic": r"sim/anthropic",
    "/x": r"provider/model",
    "x/": r"provider/model|unknown provider",
}
"""Models that are none, and what was meant."""


def test_unknown_model_writes_nothing(here):
    """Before anything is written, and with one that was meant."""

    def step(model):
        for arguments in (("run", "Hi"), ("chat",)):
            told(here(*arguments, "-m", model, stdin="Hi\n"), 2, MODELS[model])

    walked(MODELS, step)
    assert "no sessions yet" in here("sessions").err


# --- files ------------------------------------------------------------------------------------------------------------


FILES = {
    ("run", "Hi", *MODEL, "-a", "nowhere.png"): (2, r"-a nowhere\.png: file not found"),
    ("run", "Hi", *MODEL, "--schema", "nowhere.json"): (2, r"nowhere\.json.*No such file"),
    ("run", "Hi", *MODEL, "-s", "@nowhere.txt"): (2, r"nowhere\.txt.*No such file"),
    ("run", "Hi", *MODEL, "--root", "nowhere", "-T", "shell"): (2, r"--root 'nowhere'"),
    ("run", "Hi", *MODEL, "--out", "nowhere/answer.txt"): (2, r"nowhere.*does not exist"),
    ("run", "Hi", *MODEL, "--out", "."): (2, r"--out.*directory"),
    ("import", "nowhere.jsonl"): (2, r"nowhere\.jsonl.*No such file"),
    ("import", "."): (2, r"'\.'"),
    ("import", "broken.jsonl"): (7, r"broken\.jsonl"),
    ("export", "last", "--out", "nowhere/x.jsonl"): (2, r"nowhere"),
    ("embed", "nowhere.txt", "-m", "sim/openai"): (2, r"nowhere\.txt"),
    ("embed", "--text", "x", "-m", "sim/openai", "--into", "nowhere/x.db"): (2, r""),
    ("sim", "--script", "nowhere.json"): (2, r"nowhere\.json"),
    ("store", "backup", "nowhere/x.db"): (7, r"nowhere"),
}
"""Files that are not there, or are none: the exit code, and what is said."""


def test_missing_file_is_named(kept, tmp_path):
    (tmp_path / "broken.jsonl").write_text("no json\n")

    def step(typed):
        done = kept(*typed)
        told(done, *FILES[typed])
        assert "" == done.out
        assert not (tmp_path / "nowhere").exists()

    walked(FILES, step)
    assert 1 == len(json.loads(kept("sessions", "--json").out))


FULL = pytest.mark.skipif(not Path("/dev/full").exists(), reason="has no /dev/full")


# --- stdout, stderr and stdin -----------------------------------------------------------------------------------------


@pytest.fixture
def onto(monkeypatch, capfd, here):
    """Call the command in this process with something else as stdout."""
    del here

    def call(stdout, *arguments):
        with monkeypatch.context() as patched:
            patched.setattr(sys, "stdout", stdout)
            patched.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"Hi\n")))
            capfd.readouterr()
            try:
                code = main(arguments)
            except SystemExit as exc:
                code = exc.code
        return type("Done", (), {"code": code, "out": "", "err": capfd.readouterr().err})

    return call


def gone():
    """A pipe that nobody reads."""
    read, write = os.pipe()
    os.close(read)
    return os.fdopen(write, "w")


def shut(stream):
    """Close a stream, whatever is left in it."""
    with suppress(OSError):
        stream.close()


QUIET = ("keys", "keys set", "keys rm", "config set", "store gc", "sessions rm")
"""Those that may have nothing to say on stdout, or nothing to do a second time."""
WRITING = [verb for verb in ALL if verb not in QUIET]


def test_broken_pipe_is_code_141(kept, onto):
    """As with `| head -1`: not a word, and the code that other programs end with."""

    def step(verb):
        stream = gone()
        done = onto(stream, *(ALL | HELP)[verb])
        shut(stream)
        assert 141 == done.code, done.err
        assert not re.search("error|Error|Traceback", done.err), done.err

    walked([*WRITING, *HELP], step)


@FULL
def test_full_disk_on_stdout_is_reported(kept, onto):
    """What was to be printed is lost, and that is told."""

    def step(verb):
        stream = os.fdopen(os.open("/dev/full", os.O_WRONLY), "w")
        done = onto(stream, *ALL[verb])
        shut(stream)
        told(done, 1, r"stdout.*No space left on device")
        if verb in ("run", "resume"):
            assert "tenuto resume" in done.err

    walked(WRITING, step)


def test_commands_work_without_stdout(kept, onto, tenuto_sim):
    """Closed by who called, who wants to know whether it works and no more."""
    tenuto_sim.script(*(turn("Hello.") for _ in range(9)))

    def step(verb):
        done = onto(None, *ALL[verb])
        assert done.code in (0, 2), done.err
        assert not re.search("Traceback|Errno", done.err), done.err
        assert "Hello" not in done.err, done.err

    walked(ALL, step)


def test_commands_work_without_stderr_and_stdin(kept, monkeypatch):
    monkeypatch.setattr(sys, "stderr", None)
    monkeypatch.setattr(sys, "stdin", None)

    def step(verb):
        assert kept(*ALL[verb]).code in (0, 2)
        assert 2 == kept(*ALL[verb], "--nonsense").code

    walked(ALL, step)
    assert 7 == kept("show", "nothere").code


def test_run_works_with_all_streams_closed(tenuto, tenuto_sim):
    """In a process of its own, where whatever is opened next gets the number of what is closed."""
    tenuto_sim.script(turn("Hello."))
    done = tenuto.run("run", "Hi", preexec_fn=lambda: [os.close(number) for number in (0, 1, 2)])
    shown = tenuto.look("show")

    assert (0, "", "") == done
    assert "Hello." in shown
    assert "OK" in tenuto.look("store", "verify")


# --- the store --------------------------------------------------------------------------------------------------------


def spoilt(path):
    path.write_bytes(os.urandom(3000))


def damaged(path):
    """The first pages are whole, and nothing behind them."""
    data = bytearray(path.read_bytes())
    data[8192:] = bytes(sign * 7 % 251 for sign in data[8192:])
    path.write_bytes(data)


@pytest.mark.parametrize("harm", [spoilt, damaged])
def test_damaged_store_is_code_7_and_unchanged(kept, tmp_path, harm):
    place = tmp_path / "sessions.db"
    harm(place)
    before = place.read_bytes()

    def step(verb):
        done = kept(*ALL[verb], stdin="Hi\n")
        assert before == place.read_bytes()
        if verb == "doctor":
            assert 7 == done.code
            assert re.search(r"problem +store: .*sessions\.db", done.out)
        else:
            told(done, 7, r"sessions\.db.*(damaged|no SQLite database)")

    walked(KEPT, step)


NEEDS = {
    "sessions search": 1,
    **dict.fromkeys(("run", "chat", "import"), 7),
    **dict.fromkeys(("resume", "compact", "show", "fork", "export", "audit", "handover"), 7),
    **dict.fromkeys(("sessions rename", "sessions archive", "sessions rm"), 7),
    "keys set": 1,
    "config set": 1,
    "doctor": 1,
    "keys rm": 2,
}
"""What comes of a verb where nothing can be kept; any other works."""


def test_unwritable_home_is_one_message(kept, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("in the way")
    monkeypatch.delenv("TENUTO_STORE")
    monkeypatch.setenv("TENUTO_HOME", str(tmp_path / "file" / "home"))

    def step(verb):
        done = kept(*ALL[verb], stdin="sk-secret\n")
        assert NEEDS.get(verb, 0) == done.code, done.err
        if done.code and verb not in ("doctor", "sessions search"):
            told(done, done.code, r"file/home|no session|no key")
        assert "sk-secret" not in done.err or verb in ("run", "chat")

    walked(ALL, step)


def test_missing_home_is_one_message(kept, monkeypatch):
    """A user whom the system does not know, as in many a container, and no variable that says where."""
    for name in ("TENUTO_HOME", "TENUTO_STORE", "HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)

    def unknown(uid):
        raise KeyError(uid)

    def step(verb):
        done = kept(*ALL[verb], stdin="Hi\n")
        assert not re.search("Traceback|went wrong", done.err), done.err
        assert done.code in (0, 1, 2)
        if done.code and verb != "doctor":
            told(done, 2, "TENUTO_HOME")

    monkeypatch.setattr(pwd, "getpwuid", unknown)
    walked(ALL, step)


# --- the terminal -----------------------------------------------------------------------------------------------------


def hung_up(terminal):
    """Close the terminal's window: whatever has it is told so."""
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, terminal._master)
    os.close(nothing)
    return terminal.process.wait(30)


def test_terminal_closed_in_an_answer_keeps_the_session(here, tenuto, tenuto_sim):
    """In mid-answer: what was said is kept, and it goes on in another."""
    tenuto_sim.script(turn(think("Hm."), stall(times=1), say("There.")))
    running = tenuto.terminal("run", "Hi", "--color", "never")
    running.expect(r"Hm\.|thinking")

    assert 129 == hung_up(running)
    assert "[cancelled]" in tenuto.look("show")
    assert (0, "There.\n") == here("resume", "--store", tenuto.store)[:2]


def test_terminal_closed_at_an_approval_runs_nothing(here, tenuto, tenuto_sim):
    """Nobody said yes: nothing is run, now or later."""
    tenuto_sim.script(turn(call("shell", {"command": "touch done"})), turn("Then not."))
    running = tenuto.terminal("run", "Hi", "-T", "shell")
    running.expect(r"\[v\]iew:")

    assert 129 == hung_up(running)
    assert here("resume", "--store", tenuto.store).code in (0, 6)
    assert not (tenuto.folder / "done").exists()


def test_window_resizes_while_streaming(tenuto, tenuto_sim):
    """In mid-answer, to a size that nothing fits into, and back."""
    tenuto_sim.script(
        turn(think("Hm."), say("# Title\n\nA line that is a good deal longer than the window is wide."), call("read_file", {"path": "x"})),
        turn(stall(times=1, seconds=0.3), say("**The end.**")),
    )  # fmt: skip
    running = tenuto.terminal("run", "Hi", "-T", "read_file")
    for columns, lines in ((0, 0), (7, 2), (1, 1), (300, 100), (80, 24)):
        fcntl.ioctl(running._master, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
    running.expect("read_file")
    for columns, lines in ((7, 2), (1, 1), (300, 100), (80, 24)):
        fcntl.ioctl(running._master, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
    code, seen = running.end()

    assert 0 == code
    assert "Traceback" not in seen
    assert "The end." in seen
