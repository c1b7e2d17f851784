"""`last` and `~N` are sessions of the current directory; `--anywhere` turns that off."""

from __future__ import annotations

import json

import pytest


@pytest.fixture
def two(here, tmp_path, monkeypatch):
    """Start a session in each of two directories; the current directory is the first one."""
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        monkeypatch.chdir(tmp_path / name)
        here("run", name, "-T", "read_file", "-n", name)
    monkeypatch.chdir(tmp_path / "one")


def name_of(done):
    return json.loads(done.out)["session"]["name"]


def test_anywhere_selects_the_last_of_all_sessions(here, two):
    shown = [here("show", back, "--json", *more) for back in ("last", "~1") for more in ([], ["--anywhere"])]

    assert [name_of(done) for done in shown] == ["one", "two", "one", "one"]
    assert "no such session in this directory" in shown[2].err


@pytest.mark.parametrize("arguments", [["run", "-c", "More."], ["resume", "last", "More."], ["resume", "~0", "More."]])
def test_anywhere_continues_the_last_of_all_sessions(here, two, arguments):
    [*_, continued] = here(*arguments, "--anywhere", "-q"), here("show", "two", "--json")

    assert len(json.loads(continued.out)["entries"]) > len(json.loads(here("show", "one", "--json").out)["entries"])


def test_terminal_says_what_is_continued(tenuto):
    tenuto.run("run", "Hi", "-n", "trip", "-q")
    code, text = tenuto.terminal("run", "-c", "More.").end()

    assert code == 0
    assert "continuing 01" in text
    assert '"trip", just now\n' in text
