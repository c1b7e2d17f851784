"""How an answer is written: as it arrives, with thinking, as Markdown in a pager."""

from __future__ import annotations

import subprocess

import pytest

from tenuto.testing import call, cut, say, stall, think, turn

MARKDOWN = "# Title\n\nSome *words* and `code`.\n\n- one\n- two\n"


def test_stream_writes_the_answer_as_it_arrives(tenuto, tenuto_sim):
    """The second piece comes only after the first one was read."""
    tenuto_sim.script(turn(say("First."), stall(times=1), say(" Second.")))
    running = tenuto.start("run", "Go.", "--stream", "-q")

    assert running.stdout.read(6) == "First."
    running.kill()


def test_stream_writes_text_before_calls_and_ends_lines(here, tenuto_sim):
    tenuto_sim.script(turn(say("I look."), call("list_files", {})), turn(say(["One", " file."])))
    streamed = here("run", "Go.", "-T", "list_files", "--stream")
    whole = here("resume", "--stream", "-q")

    assert streamed.out == "I look.\nOne file.\n"
    assert "I look." not in streamed.err
    assert whole.out == "One file.\n"


def test_stream_reports_a_reply_that_is_sent_again(here, tenuto_sim):
    tenuto_sim.script(turn(say("Hal"), cut(times=1), say("Half.")))
    done = here("run", "Go.", "--stream", "-q", "--json")
    streamed = here("run", "Go.", "--stream")

    assert (done.code, "use either --json or --stream" in done.err) == (2, True)
    assert streamed.out.endswith("Half.\n")


@pytest.mark.parametrize(
    ("options", "is_shown"), [((), False), (("--show-thinking",), True), (("-q", "--show-thinking"), False)]
)
def test_thinking_needs_an_option_without_a_terminal(here, tenuto_sim, options, is_shown):
    tenuto_sim.script(turn(think("Hm."), say("Four.")))
    done = here("run", "2 + 2?", *options)

    assert (done.out, "Hm." in done.err) == ("Four.\n", is_shown)


def test_show_renders_markdown_on_a_terminal(tenuto, tenuto_sim):
    tenuto_sim.script(turn(say(MARKDOWN)))
    tenuto.run("run", "Hi", "-q")
    rendered = tenuto.terminal("show", "--no-pager").end()
    raw = tenuto.terminal("show", "--no-pager", "--raw").end()
    piped = tenuto.run("show")

    assert (rendered[0], raw[0]) == (0, 0)
    assert "  Title\n\n  Some words and code.\n\n   • one\n   • two\n" in rendered[1]
    for text in (raw[1], piped.out):
        assert "  # Title\n  \n  Some *words*" in text.replace("\n\n", "\n  \n")


def test_show_opens_the_pager_of_the_user(tenuto, tenuto_sim, tmp_path):
    tenuto_sim.script(turn(say(MARKDOWN)))
    tenuto.run("run", "Hi", "-q")
    tenuto.env["PAGER"] = "sed s/^/PAGED:/"
    code, paged = tenuto.terminal("show").end()
    piped = subprocess.run(
        tenuto.command("show"), env=tenuto.env, cwd=tmp_path, capture_output=True, text=True, check=True
    )

    assert (code, paged.count("PAGED:session")) == (0, 1)
    assert "PAGED:" not in piped.stdout
