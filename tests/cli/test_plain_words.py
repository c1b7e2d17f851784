"""Messages name the problem in plain words: no class names, no error numbers, suggestions that fit."""

from __future__ import annotations

import pytest

from tenuto.testing import call, turn


def test_config_show_lists_all_problems(here, tmp_path):
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "config.toml").write_text('modle = "x"\nmax_usd = "much"\n[providers.x]\nfoo = 1\n')
    done = here("config", "show")

    assert done.code == 2
    assert [word in done.err for word in ("'modle'", "\n  max_usd should be", "\n  unknown setting 'foo'")] == [
        True
    ] * 3


def test_results_of_builtin_tools_have_no_class_names(here, tenuto_sim, tmp_path):
    paths = ("nowhere.txt", "../q.txt", "/etc/passwd", "sub")
    (tmp_path / "sub").mkdir()
    tenuto_sim.script(turn(*[call("read_file", {"path": path}) for path in paths]), turn("Done."))
    done = here("run", "Read.", "-T", "read_file")

    assert done.err.count("! read_file: ") == len(paths)
    assert [word for word in ("Error:", "Errno") if word in done.err] == []
    assert "! read_file: nowhere.txt not found" in done.err


def test_refused_connection_to_this_machine_is_tried_once(here, tmp_path, real_providers):
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "config.toml").write_text('[providers.gone]\nbase_url = "http://127.0.0.1:9/v1"\n')
    done = here("run", "Hi", "-m", "gone/x", "-q")

    assert done.code == 1
    assert "error: gone: cannot connect to 127.0.0.1:9 (connection refused) (connection failed)\n" in done.err
    assert "attempts" not in done.err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["import", "notes.txt"], "this is not an exported session"),
        (["run", "Hi", "--max-tokens", "x"], "'x' is not a valid whole number"),
        (["run", "Hi", "--max-usd", "nan"], "usd=nan: use a number"),
        (["fork", "--at", "x"], "'x' is not a valid whole number"),
        (["sessions", "--model"], "No such option '--model'.\n"),
        (["providers", "nope"], "list them with tenuto providers"),
        (["run", "Hi", "-m", "nope/x"], "unknown provider 'nope'\n"),
        (["run", "Hi", "--modle", "x"], "Did you mean '--model'?"),
    ],
)
def test_message_is_plain(here, tmp_path, arguments, words):
    (tmp_path / "notes.txt").write_text("some notes\n")
    done = here(*arguments)

    assert done.code != 0
    assert words in done.err


def test_texts_of_a_message_are_divided_by_a_blank_line(here, tenuto_sim, tmp_path):
    for name in ("a.md", "b.md"):
        (tmp_path / name).write_text(name)
    tenuto_sim.script(turn("Fine."))
    here("run", "look", "-a", "a.md", "-a", "b.md")
    [content] = [request.body["messages"][0]["content"] for request in tenuto_sim.requests]

    assert 'look\n\nFile "a.md":\n```\na.md\n```\n\nFile "b.md"' in "".join(part["text"] for part in content)
    assert '  look File "a.md"' in here("sessions").out


def test_fork_without_entries_is_listed_as_forked(here):
    here("run", "Hi", "-n", "parent")
    here("fork", "parent", "-n", "branch")

    assert "  forked " in here("sessions").out
    assert "\nforked, " in here("show", "branch").out
