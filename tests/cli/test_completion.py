"""Completion: by the protocol of each shell, and in bash."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys

import click
import pytest
from click.shell_completion import split_arg_string

from cli.canned_provider import keep_sessions
from cli.conftest import Terminal
from tenuto.cli.commands.completion import SHELLS
from tenuto.cli.main import COMMANDS, _tenuto
from tenuto.cli.session.models import model_ids
from tenuto.tools.builtin import BUILTIN


@pytest.fixture
def ask(here, monkeypatch):
    """Complete a line as a shell does; the answer has kind, value and help."""

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
        """Return the values; a kind takes the place of names that only the shell knows."""
        lines = ask(line).out.splitlines()
        return [value if kind == "plain" else kind for kind, value in zip(lines[::3], lines[1::3], strict=False)]

    return values


def titled(ask, line):
    lines = ask(line).out.splitlines()
    return dict(zip(lines[1::3], lines[2::3], strict=False))


WORDS = {
    "tenuto s": ["sessions", "show", "sim", "store"],
    "tenuto --pro": ["--profile"],
    "tenuto sessions re": ["rename"],
    "tenuto keys ": ["list", "rm", "set"],
    "tenuto store re": ["restore"],
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
def test_completed_words(offered, keys, line):
    keys({"groq": "kept"})

    assert sorted(WORDS[line]) == sorted(offered(line))


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_is_completed(offered, name):
    parameters = [
        one for one in _tenuto.get_command(click.Context(_tenuto), name).params if isinstance(one, click.Option)
    ]
    options = {option for one in parameters if not one.hidden for option in one.opts if option.startswith("--")}

    assert set() == options - set(offered(f"tenuto {name} --"))


def test_models_are_completed_with_family(ask, offered, home):
    names = titled(ask, "tenuto run -m anthropic/claude-opus-5")
    listed = [id for id in model_ids() if id.startswith("openai/gpt-6")]

    assert COMMANDS == titled(ask, "tenuto ")
    assert names == {"anthropic/claude-opus-5-5": "Claude Opus 5.5", "anthropic/claude-opus-5": "Claude Opus 5"}
    for command in ("handover last ", "audit -m ", "chat --model="):
        assert listed == offered(f"tenuto {command}openai/gpt-6")
    assert offered("tenuto run -m anthropic/claude-opus-5-5:m") == [
        f"anthropic/claude-opus-5-5:{effort}" for effort in ("medium", "max")
    ]
    assert offered("tenuto run --fallback sim/openai,sim/anth") == ["sim/openai,sim/anthropic"]


def test_usable_models_are_completed_without_text(offered, home, monkeypatch):
    """There is a key for the provider, or it needs none."""
    for providers in ({"sim"}, {"sim", "groq"}):
        assert providers == {id.partition("/")[0] for id in offered("tenuto run -m ")}
        monkeypatch.setenv("GROQ_API_KEY", "x")


@pytest.fixture
def kept(tmp_path, monkeypatch):
    """Three sessions: one with a name, one whose name needs quotes, one with a hostile title."""
    file = tmp_path / "kept.db"
    monkeypatch.setenv("TENUTO_STORE", str(file))
    return keep_sessions(file, [("Hello", "trip"), ("How are you", "two words"), ("\x1b[2J\nplain,fake", "")])


def test_sessions_are_completed_with_titles(ask, offered, home, kept):
    """In every command. A longer prefix is completed too; in fish, a title may have commas."""
    _, spaced, tricky = kept
    shown = {
        "last": "the most recent session",
        tricky[:12]: "\\x1b[2J plain,fake",
        spaced[:12]: "two words",
        "trip": "Hello",
    }
    for line in ("tenuto show ", "tenuto sessions rm last ", "tenuto run --session ", "tenuto chat "):
        assert list(shown.items()) == list(titled(ask, line).items())
    assert [tricky] == offered(f"tenuto show {tricky[:15]}")
    assert f"plain,{tricky[:12]}\t\\x1b[2J plain,fake" in ask("tenuto show ", "fish").out.splitlines()


def test_profiles_servers_and_aliases_are_completed(offered, config):
    config(
        '[profiles.work]\nmodel = "sim/openai"\n[providers.mine]\nbase_url = "http://x/v1"\n'
        '[aliases]\nfast = "sim/openai:low"\n'
    )

    assert offered("tenuto --profile ") == ["work"]
    assert offered("tenuto run -m fas") == ["fast"]
    assert "mine" in offered("tenuto models -p m")


@pytest.mark.parametrize("line", ["tenuto show ", "tenuto --profile ", "tenuto models -p ", "tenuto run -m "])
def test_broken_files_give_no_message(ask, home, config, keys, monkeypatch, line):
    """An invalid config file, a damaged store, a key file that others can read."""
    config("= nonsense")
    keys("{}", 0o644)
    (home / "damaged.db").write_bytes(b"nonsense" * 1000)
    monkeypatch.setenv("TENUTO_STORE", str(home / "damaged.db"))
    before = sorted(path.name for path in home.iterdir())

    assert ask(line).code in (0, None)
    assert before == sorted(path.name for path in home.iterdir())


@pytest.fixture
def machine(tenuto, here, tmp_path):
    """An environment with `tenuto` in PATH, and the scripts of all shells as files."""
    place = tmp_path / "bin"
    place.mkdir()
    program = place / "tenuto"
    program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m tenuto "$@"\n')
    program.chmod(0o755)
    for shell in SHELLS:
        (tmp_path / shell).write_text(here("completion", shell).out)
    return tenuto.env | {"PATH": f"{place}:{os.environ['PATH']}", "HOME": str(tmp_path), "TERM": "dumb"}


_BASH = r"""
source ./bash
try() {
    COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMPREPLY=()
    _tenuto_join_colons tenuto
    printf '%s|' "${COMPREPLY[@]}"
    echo
}
try tenuto run -m anthropic/claude-haiku-5
try tenuto run -m anthropic/claude-opus-5-5 : hi
try tenuto run -m sim/chat --appr
"""


@pytest.mark.skipif(sys.platform == "win32", reason="no bash")
def test_bash_joins_the_words_of_a_model_name(machine, tmp_path):
    command = ["bash", "--norc", "--noprofile", "-c", _BASH]
    done = subprocess.run(command, env=machine, cwd=tmp_path, capture_output=True, text=True, check=False)

    assert done.stdout.splitlines() == ["anthropic/claude-haiku-5-5|", "high|", "--approve|"]


@pytest.mark.skipif(sys.platform == "win32", reason="no bash")
def test_tab_completes_a_model(machine, tmp_path, ask, home):
    """In bash; other shells use their protocols."""
    line, model = "tenuto run --hide-thinking -m ", "anthropic/claude-haiku-5"
    for shell in SHELLS:
        assert f"{model}-5" in ask(f"{line}{model}", shell).out
    terminal = Terminal(["/bin/bash", "--norc", "--noprofile", "-i"], machine, tmp_path)
    try:
        terminal.type("source ./bash; PS1='ready''> '\n")
        terminal.expect("ready> ")
        terminal.type(f"{line}{model}\t")
        terminal.expect(rf"{model}-5 ")
    finally:
        terminal.close()
