"""What is offered when the tab key is pressed: by the protocol, and in the shells themselves."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys

import click
import pytest
from click.shell_completion import split_arg_string

from cli.answering import keep_sessions
from cli.conftest import Terminal
from tenuto.cli import completing
from tenuto.cli.catalogue import model_ids
from tenuto.cli.completion import SHELLS
from tenuto.cli.main import COMMANDS, _tenuto
from tenuto.tools.builtin import BUILTIN


@pytest.fixture
def ask(here, monkeypatch):
    """Ask as a shell does: a line that the cursor stands at the end of. What is answered, by kind, value and help."""

    def asked(line, shell="zsh"):
        words = [*split_arg_string(line), *([""] if line.endswith(" ") else [])]
        with monkeypatch.context() as patched:
            patched.setenv("_TENUTO_COMPLETE", f"{shell}_complete")
            patched.setenv("COMP_WORDS", line)
            patched.setenv("COMP_CWORD", words[-1] if shell == "fish" else str(len(words) - 1))
            done = here()
        assert "" == done.err
        return done

    return asked


@pytest.fixture
def offered(ask):
    def values(line):
        """What may be typed; a kind stands for what only the shell knows."""
        lines = ask(line).out.splitlines()
        return [value if kind == "plain" else kind for kind, value in zip(lines[::3], lines[1::3], strict=False)]

    return values


def titled(ask, line):
    lines = ask(line).out.splitlines()
    return dict(zip(lines[1::3], lines[2::3], strict=False))


@pytest.fixture
def home(tmp_path, monkeypatch):
    """No key anywhere, and a folder for what is configured."""
    from tenuto.catalog import PROVIDERS

    for row in PROVIDERS.values():
        for name in (*row.key_env, *row.bearer_env):
            monkeypatch.delenv(name, raising=False)
    folder = tmp_path / "home"
    folder.mkdir()
    return folder


# --- words ------------------------------------------------------------------------------------------------------------


def test_every_command_is_offered_with_what_it_does(ask):
    assert {name: says for name, (_, says) in COMMANDS.items()} == titled(ask, "tenuto ")


WORDS = {
    "tenuto s": ["sessions", "show", "sim"],
    "tenuto --pro": ["--profile"],
    "tenuto sessions re": ["rename", "reindex", "restore"],
    "tenuto keys ": ["list", "path", "rm", "set"],
    "tenuto run --appr": ["--approve"],
    "tenuto run --approve ": ["ask", "auto", "never"],
    "tenuto run --approve=a": ["ask", "auto"],
    "tenuto completion ": list(SHELLS),
    "tenuto run -T ": list(BUILTIN),
    "tenuto run -T sh": ["shell"],
    "tenuto tools re": ["read_file"],
    "tenuto models -p gro": ["groq"],
    "tenuto keys set gro": ["groq"],
    "tenuto config set fall": ["fallback"],
    "tenuto config set approve ": ["ask", "auto", "never"],
    "tenuto config set tools she": ["shell"],
    "tenuto config set nope ": [],
    "tenuto keys rm ": ["groq"],
    "tenuto run --out ": ["file"],
    "tenuto run -a pic": ["file"],
    "tenuto run --root ": ["dir"],
    "tenuto show --store ": ["file"],
    "tenuto sim --script ": ["file"],
    "tenuto nope ": [],
    "tenuto run --nope ": [],
    "tenuto run 'what is": [],
}


@pytest.mark.parametrize("line", WORDS)
def test_words_options_and_values(offered, home, line):
    (home / "keys.json").write_text('{"groq": "kept"}')
    (home / "keys.json").chmod(0o600)

    assert sorted(WORDS[line]) == sorted(offered(line))


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_of_every_command_is_offered(offered, name):
    context = click.Context(_tenuto)
    command = _tenuto.get_command(context, name)
    options = {
        option
        for parameter in command.params
        if isinstance(parameter, click.Option) and not parameter.hidden
        for option in parameter.opts
        if option.startswith("--")
    }

    assert set() == options - set(offered(f"tenuto {name} --"))


def test_what_is_completed_by_name_is_there():
    """A parameter that somebody calls otherwise would be completed no more, and nobody would be told."""
    names = {"profile"}

    def walk(command, path):
        names.update(name for parameter in command.params for name in (parameter.name, f"{path} {parameter.name}"))
        if isinstance(command, click.Group):
            context = click.Context(command)
            for name in command.list_commands(context):
                walk(command.get_command(context, name), f"{path} {name}")

    for name in COMMANDS:
        walk(_tenuto.get_command(click.Context(_tenuto), name), name)

    assert set() == set(completing._VALUES) - names


# --- models -----------------------------------------------------------------------------------------------------------


def test_models_that_begin_so_and_how_they_are_called(ask, home):
    told = titled(ask, "tenuto run -m anthropic/claude-opus-5")

    assert told == {"anthropic/claude-opus-5-5": "Claude Opus 5.5", "anthropic/claude-opus-5": "Claude Opus 5"}


@pytest.mark.parametrize(
    "line", ["tenuto handover last openai/gpt-6", "tenuto audit -m openai/gpt-6", "tenuto chat --model=openai/gpt-6"]
)
def test_models_wherever_one_is_named(offered, home, line):
    assert [id for id in model_ids() if id.startswith("openai/gpt-6")] == offered(line)


def test_before_anything_is_typed_those_that_can_be_asked(offered, home, monkeypatch):
    """There is a key for it, or it needs none."""
    without = offered("tenuto run -m ")
    monkeypatch.setenv("GROQ_API_KEY", "x")
    with_one = offered("tenuto run -m ")

    assert {"sim"} == {id.partition("/")[0] for id in without}
    assert {"sim", "groq"} == {id.partition("/")[0] for id in with_one}


def test_a_model_without_its_provider_if_only_one_has_it(offered, home):
    """Shells take what all answers have in common: with several providers, that would take back what is typed."""
    assert offered("tenuto run -m claude-haiku-5") == ["anthropic/claude-haiku-5-5"]
    assert offered("tenuto run -m gpt-oss-120") == []


def test_efforts_behind_a_colon_and_models_behind_a_comma(offered, home):
    assert offered("tenuto run -m anthropic/claude-opus-5-5:m") == [
        f"anthropic/claude-opus-5-5:{effort}" for effort in ("medium", "max")
    ]
    assert offered("tenuto run --fallback sim/openai,sim/anth") == ["sim/openai,sim/anthropic"]


def test_the_models_whose_part_the_simulator_plays(offered, home):
    assert offered("tenuto run -m sim/anthropic/claude-haiku-5") == ["sim/anthropic/claude-haiku-5-5"]


# --- what is kept -----------------------------------------------------------------------------------------------------


@pytest.fixture
def kept(tmp_path, monkeypatch):
    """A store with three sessions: one that has a name, one whose name needs quotes, one with a title that is a trick."""
    file = tmp_path / "kept.db"
    monkeypatch.setenv("TENUTO_STORE", str(file))
    return keep_sessions(file, [("Hello", "trip"), ("How are you", "two words"), ("\x1b[2J\nplain,fake", "")])


def test_sessions_by_name_or_id_with_their_titles(ask, offered, home, kept):
    """Wherever one is named. More of an id than is shown finds it, too; in fish, a title may have commas."""
    _, spaced, tricky = kept
    shown = {
        "last": "the one that changed last",
        tricky[:12]: "\\x1b[2J plain,fake",
        spaced[:12]: "two words",
        "trip": "Hello",
    }
    for line in ("tenuto show ", "tenuto sessions rm last ", "tenuto run --session ", "tenuto chat "):
        assert list(shown.items()) == list(titled(ask, line).items())
    assert [tricky] == offered(f"tenuto show {tricky[:15]}")
    assert f"plain,{tricky[:12]}\t\\x1b[2J plain,fake" in ask("tenuto show ", "fish").out.splitlines()


def test_profiles_and_servers_of_ones_own(offered, home):
    (home / "config.toml").write_text(
        '[profiles.work]\nmodel = "sim/openai"\n[providers.mine]\nbase_url = "http://x/v1"\n'
    )

    assert offered("tenuto --profile ") == ["work"]
    assert "mine" in offered("tenuto models -p m")


@pytest.mark.parametrize("line", ["tenuto show ", "tenuto --profile ", "tenuto models -p ", "tenuto run -m "])
def test_what_is_broken_gives_no_message_and_nothing_is_made(ask, home, monkeypatch, line):
    """A configuration that cannot be read, a store that is none, a file of keys that others can read."""
    (home / "config.toml").write_text("= nonsense")
    (home / "keys.json").write_text("{}")
    (home / "keys.json").chmod(0o644)
    (home / "damaged.db").write_bytes(b"nonsense" * 1000)
    monkeypatch.setenv("TENUTO_STORE", str(home / "damaged.db"))
    before = sorted(path.name for path in home.iterdir())

    assert ask(line).code in (0, None)
    assert before == sorted(path.name for path in home.iterdir())


def test_where_nothing_is_kept_nothing_is_offered_or_made(offered, home, tmp_path, monkeypatch):
    monkeypatch.setenv("TENUTO_STORE", str(tmp_path / "none" / "none.db"))

    assert offered("tenuto show ") == []
    assert not (tmp_path / "none").exists()


# --- shells -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def machine(tenuto, tmp_path):
    """An environment in which the command is called by its name, and a folder with something in it."""
    place = tmp_path / "bin"
    place.mkdir()
    called = place / "tenuto"
    called.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m tenuto "$@"\n')
    called.chmod(0o755)
    (tmp_path / "some folder").mkdir()
    for shell, script in SHELLS.items():
        (tmp_path / shell).write_text(script)
    return tenuto.env | {"PATH": f"{place}:{os.environ['PATH']}", "HOME": str(tmp_path), "TERM": "dumb"}


_BASH = r"""
source ./bash
try() {
    COMP_LINE=$1 COMP_POINT=${#1} COMP_WORDS=("${@:2}") COMP_CWORD=$(($# - 2)) COMPREPLY=(left over)
    _tenuto_completion tenuto "${COMP_WORDS[COMP_CWORD]}"
    printf '%s|' "${COMPREPLY[@]}"
    echo
}
try 'tenuto run --model=anthropic/claude-haiku-5' tenuto run --model = anthropic/claude-haiku-5
try 'tenuto run -m anthropic/claude-opus-5-5:hi' tenuto run -m anthropic/claude-opus-5-5 : hi
try 'tenuto run -m sim/chat --root so' tenuto run -m sim/chat --root so
set | grep -c '^\(line\|word\|rest\|words\|head\)='
"""


@pytest.mark.skipif(sys.platform == "win32", reason="bash, and what is called like it there, is another matter")
def test_bash_puts_together_what_readline_cuts(machine, tmp_path):
    """COMPREPLY, as bash gets it; nothing else of the shell is touched."""
    done = subprocess.run(
        ["bash", "--norc", "--noprofile", "-c", _BASH],
        env=machine,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.stdout.splitlines() == ["anthropic/claude-haiku-5-5|", "high|", "some folder|", "0"]
    assert "" == done.stderr


_STARTED = {
    "bash": (["bash", "--norc", "--noprofile", "-i"], "source ./bash; PS1='ready''> '"),
    "zsh": (["zsh", "-f", "-i"], "autoload -U compinit; compinit -u; source ./zsh; PS1='ready''> '"),
    "fish": (["fish", "-N", "-i"], "source ./fish; function fish_prompt; echo 'ready''> '; end"),
}
_REAL = {shell: bool(shutil.which(shell)) for shell in SHELLS}


@pytest.mark.parametrize("shell", SHELLS, ids=lambda shell: shell if _REAL[shell] else f"{shell}-by-its-protocol")
def test_a_tab_completes(shell, machine, tmp_path, ask, home):
    """A model by its own name: the shell has to take back what was typed, and to know a value from what describes it."""
    line, model = "tenuto run --hide-thinking -m ", "claude-haiku-5"
    if not _REAL[shell]:
        assert f"anthropic/{model}-5" in ask(f"{line}{model}", shell).out
        return
    command, setup = _STARTED[shell]
    terminal = Terminal([shutil.which(command[0]), *command[1:]], machine, tmp_path)
    try:
        terminal.type(f"{setup}\n")
        terminal.expect("ready> ")
        terminal.type(f"{line}{model}\t")
        terminal.expect(rf"anthropic/{model}-5 ")
        terminal.type("--approve=au\t")
        terminal.expect(r"--approve=au.*to ")
    finally:
        terminal.close()


@pytest.mark.parametrize("shell", SHELLS)
def test_each_script_says_how_it_is_installed(here, shell):
    done = here("completion", shell)

    assert (0, SHELLS[shell], "") == done
    assert f"tenuto completion {shell}" in done.out.partition("_tenuto_completion")[0]


def test_a_shell_that_is_none_is_code_2(here):
    done = here("completion", "tcsh")

    assert (2, "") == (done.code, done.out)
    assert "'bash', 'zsh', 'fish'" in done.err


def test_the_script_piped_and_in_a_terminal(tenuto):
    piped = tenuto.run("completion", "fish")
    code, screen = tenuto.terminal("completion", "fish").end()

    assert (0, SHELLS["fish"], "") == piped
    assert (0, "".join(piped.out.split())) == (code, "".join(screen.split())), "long lines are wrapped there"
