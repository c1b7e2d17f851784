"""Help, start, settings files and exit codes of the command."""

from __future__ import annotations

import ast
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import click
import pytest

import tenuto as package
from tenuto import errors
from tenuto.agent.runner import _FULL
from tenuto.cli.errors import TABLE, ExitCode, explain_error
from tenuto.cli.main import COMMANDS, _tenuto, main, module_of

HEAVY = {"aiohttp", "rich", "sqlite3", "asyncio", "msgspec", "ssl", "socket"}


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["run", "--help"]], ids=" ".join)
def test_help_loads_nothing_heavy(arguments):
    """No network library, database or event loop, and no module of another command."""
    code = (
        f"import sys; from tenuto.cli.main import main; main({arguments}); print(sorted(sys.modules), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(ast.literal_eval(done.stderr))

    assert set() == loaded & HEAVY
    assert {module_of(name) for name in COMMANDS if name != arguments[0]}.isdisjoint(loaded)


def test_installed_script_is_main():
    scripts = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text("utf-8"))["project"]["scripts"]

    assert {"tenuto": f"{main.__module__}:{main.__name__}"} == scripts


def every_command(command, path):
    yield path, command
    if isinstance(command, click.Group):
        for name in command.list_commands(click.Context(command)):
            yield from every_command(command.get_command(click.Context(command), name), (*path, name))


def test_examples_can_be_typed():
    """Explanations are comments for a shell; the command accepts the other words."""
    commands = dict(every_command(_tenuto, ()))
    for command in commands.values():
        for line in (command.epilog or "").splitlines():
            if not line.startswith("  tenuto "):
                continue
            assert not re.search(r"\S {2,}[^# ]", line), line
            words = shlex.split(line, comments=True)[1:]
            end = next((at for at, word in enumerate(words) if word in ("|", ">", "&&")), len(words))
            words = words[2:end] if words[0] == "--profile" else words[:end]
            called = next(names for size in (2, 1) if (names := tuple(words[:size])) in commands)
            # click keeps the help option of a command's first context
            names = _tenuto.context_settings["help_option_names"]
            commands[called].make_context(" ".join(called), words[len(called) :], help_option_names=names)


@pytest.mark.usefixtures("real_providers")
def test_offline_command_names_the_url(here, monkeypatch):
    monkeypatch.setenv("TENUTO_OFFLINE", "1")
    done = here("run", "Hi", "-m", "anthropic/claude-sonnet-4-5")

    assert 1 == done.code
    assert "https://api.anthropic.com/" in done.err
    assert "sim/... models" in done.err
    assert 0 == here("run", "Hi", "-m", "sim/anthropic").code


def test_internal_error_is_one_message_without_debug(here, monkeypatch):
    """`TENUTO_DEBUG` prints the traceback."""

    def broken(*_, **__):
        raise KeyError("bug")

    monkeypatch.setattr("tenuto.store.open.open_store", broken)
    short = here("run", "Hi")
    monkeypatch.setenv("TENUTO_DEBUG", "1")
    long = here("run", "Hi")

    assert 1 == short.code == long.code
    assert "error: internal error (please report): KeyError: 'bug'\n  run with TENUTO_DEBUG=1" in short.err
    assert "Traceback" not in short.err
    assert "Traceback" in long.err


@pytest.mark.parametrize(
    ("arguments", "output"),
    [
        ([], "Usage: tenuto"),
        (["help"], "Usage: tenuto [OPTIONS]"),
        (["help", "run"], "Usage: tenuto run"),
        (["version"], f"tenuto, version {package.__version__}"),
        (["--version"], f"tenuto, version {package.__version__}"),
        (["keys"], ""),
        (["config"], "KEY "),
    ],
)
def test_short_forms_exit_with_0(here, arguments, output):
    done = here(*arguments)

    assert (0, True) == (done.code, output in done.out)


def test_table_fits_a_narrow_terminal(tenuto):
    """The last column is cut; if too little is left, other columns are dropped. Nothing is cut in a pipe."""
    tenuto.run("run", "A prompt of many words, long enough for any line")
    for columns, heads, title in (
        (90, "ID CHANGED STATUS MODEL MESSAGES TITLE", "A prompt of many wo..."),
        (70, "ID CHANGED STATUS TITLE", "A prompt of many words, ..."),
    ):
        _, screen = tenuto.terminal("sessions", columns=columns).end()
        head, line = screen.splitlines()
        assert heads == " ".join(head.split())
        assert line.endswith(title)
        assert len(line) <= columns
    assert "long enough for any line" in tenuto.run("sessions").out


COUNT_OPENS = """
import collections, sys
opens = collections.Counter()
sys.addaudithook(lambda event, args: opens.update([str(args[0])]) if event == "open" else None)
from tenuto.cli.main import main
main(sys.argv[1:])
print([count for name, count in opens.items() if name.endswith(("config.toml", "keys.json"))], file=sys.stderr)
"""


@pytest.mark.parametrize(
    "arguments", [["providers"], ["doctor"], ["run", "Hi", "-q"], ["keys"], ["models"]], ids=" ".join
)
def test_settings_and_keys_are_read_once(tenuto, arguments):
    (tenuto.folder / "home").mkdir(mode=0o700)
    (tenuto.folder / "home" / "config.toml").write_text("quiet = true\n")
    (tenuto.folder / "home" / "keys.json").write_text("{}")
    (tenuto.folder / "home" / "keys.json").chmod(0o600)
    command = [sys.executable, "-c", COUNT_OPENS, *arguments]
    done = subprocess.run(command, env=tenuto.env, cwd=tenuto.folder, capture_output=True, text=True, check=True)

    assert {1} == {*ast.literal_eval(done.stderr.splitlines()[-1])}


CODES = [
    (errors.MissingKey("acme", ("ACME_API_KEY",)), 3, "ACME_API_KEY"),
    (errors.AuthenticationFailed("no", provider="acme"), 3, "key"),
    (errors.RateLimited("slow down", provider="acme"), 4, "wait"),
    (errors.Unavailable("overloaded"), 4, "wait"),
    (errors.QuotaExceeded("no money"), 1, "credit"),
    (errors.NotFound("no such model"), 2, "model name"),
    (errors.ContextTooLong("too much"), 1, "a larger context window (-m)"),
    (errors.ConnectionFailed("no route"), 1, "network"),
    (errors.TimedOut("nothing came"), 1, "network"),
    (errors.IncompleteResponse("cut"), 1, ""),
    (errors.BadRequest("what?"), 1, ""),
    (errors.UnsupportedModel("acme/one", "it takes no tools"), 2, "-m"),
    (errors.UnknownProvider("acm"), 2, "provider/model"),
    (errors.MissingTool("dig"), 2, "-T MODULE:dig"),
    (errors.LimitReached("turns"), 5, ""),
    (errors.SchemaMismatch("no fit"), 8, ""),
    (errors.SessionNotFound("no session"), 7, "tenuto sessions"),
    (errors.SessionInUse("01ab", pid=7, host="box"), 7, "tenuto resume 01ab --takeover"),
    (errors.LeaseLost("taken"), 7, "--takeover"),
    (errors.StoreCorrupt("damaged"), 7, ""),
    (errors.StoreError("full"), 7, ""),
    (errors.RunCancelled("over"), 130, ""),
    (OSError(28, "No space left on device"), 1, ""),
    (KeyError("bug"), 1, "TENUTO_DEBUG"),
]


@pytest.mark.parametrize("error, code, hint", CODES, ids=lambda value: type(value).__name__)
def test_each_error_has_code_and_hint(error, code, hint):
    told = explain_error(error)

    assert code == told.code
    assert hint in told.hint
    assert told.message


def test_every_error_class_has_a_row():
    """No error is an internal one, and no row hides a later one."""
    tree = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, errors.TenutoError)]

    assert [] == [error for error in tree if not any(issubclass(error, kind) for kind, _, _ in TABLE)]
    for at, (kind, _, _) in enumerate(TABLE):
        assert not any(issubclass(kind, above) for above, _, _ in TABLE[:at])


def test_help_names_every_exit_code(here):
    """All but that of a broken pipe."""
    listed = here("--help").out.partition("Exit codes:\n")[2]
    codes = {int(code) for code in re.findall(r"(?<!\S)(\d+)(?=[ ,])", listed)}

    assert codes == {int(code) for code in ExitCode} - {ExitCode.BROKEN_PIPE}


def test_notes_for_users_are_printed():
    error = errors.RateLimited("slow down")
    error.add_note("gave up after 5 attempts")

    assert explain_error(error).hint.startswith("gave up after 5 attempts; wait")
    for_programs = errors.ContextTooLong("too much")
    for_programs.add_note(_FULL)
    assert "session.handover(" in _FULL
    assert "session.handover(" not in explain_error(for_programs).hint
    in_use = errors.SessionInUse("01ab", pid=7, host="box")
    assert "session 01ab is in use by process 7 on box" == explain_error(in_use).message
