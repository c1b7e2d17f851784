"""How far long work is: one line, on a terminal only, and gone in the end."""

from __future__ import annotations

import io
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

if sys.platform == "win32":
    pytest.skip("there are no pseudo-terminals", allow_module_level=True)

from cli.screens import Window
from tenuto.cli.escaping import shown
from tenuto.cli.progress import Progress, progress


@pytest.fixture(autouse=True)
def _terminal(monkeypatch):
    monkeypatch.setenv("TERM", "xterm-256color")


class Clock:
    """A clock that stands still until somebody moves it."""

    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


@pytest.mark.parametrize(
    "total, done, spent, line",
    [
        (None, 0, 0, "verifying  0"),
        (None, 1234, 0, "verifying  1,234"),
        (None, 1234, 2, "verifying  1,234  617/s"),
        (1000, 0, 5, "verifying  [....................]    0 %  0 of 1,000"),
        (1000, 450, 0.5, "verifying  [#########...........]   45 %  450 of 1,000"),
        (1000, 450, 90, "verifying  [#########...........]   45 %  450 of 1,000  5.0/s  1:50 left"),
        (90_000, 10, 10, "verifying  [....................]    0 %  10 of 90,000  1.0/s  24:59:50 left"),
        (1000, 1000, 10, "verifying  [####################]  100 %  1,000 of 1,000  100/s"),
        (1000, 1200, 10, "verifying  [####################]  100 %  1,200 of 1,000  120/s"),
        (0, 0, 10, "verifying  0"),
    ],
)
def test_the_line_says_what_how_far_how_fast_and_how_long(total, done, spent, line):
    clock = Clock()
    bar = Progress("verifying", total, live=False, clock=clock)
    bar.advance(done)
    clock.now += spent

    assert line == bar.line()


@given(st.text(), st.text(), st.integers(), st.integers() | st.none())
def test_nothing_in_it_is_obeyed_and_nothing_breaks_it(what, note, done, total):
    bar = Progress(what, total, live=False)
    bar.advance(done)
    bar.note(note)

    assert bar.line() == shown(bar.line())
    assert not set("\n\t") & set(bar.line())


def test_it_is_drawn_in_its_place_ten_times_a_second_at_most_and_erased():
    """A line that is said meanwhile stays above it."""
    with Window(40, 5) as window:
        clock = Clock()
        bar = Progress("importing", 300, live=True, clock=clock)
        for number in range(300):
            clock.now += 0.01
            bar.advance()
            bar.note(f"session {number} 日本語")
        drawn = window.raw.count("importing")
        seen = window.display.lines
        bar.say("skipped \x1b[2J one")
        said = window.display.lines
        bar.erase()

        assert ["importing  [###################.]   ..."] == seen
        assert 30 >= drawn >= 29
        assert ["skipped \\x1b[2J one", "importing  [####################]  1..."] == said
        assert ["skipped \\x1b[2J one"] == window.display.lines


def test_it_is_gone_however_the_work_ends():
    with Window() as window:
        with pytest.raises(KeyboardInterrupt), progress("verifying") as bar:
            bar.note("one")
            raise KeyboardInterrupt
        assert "verifying" in window.raw
        assert [] == window.display.lines


@pytest.mark.parametrize("quiet", [True, False])
def test_off_a_terminal_only_what_is_said_is_said(capsys, quiet):
    with progress("verifying", 2, quiet=quiet) as bar:
        bar.advance()
        bar.say("one is damaged")

    assert ("", "one is damaged\n") == capsys.readouterr()


def test_who_is_to_be_quiet_draws_nothing():
    with Window() as window:
        with progress("verifying", 2, quiet=True) as bar:
            bar.advance()
        assert "" == window.raw


@pytest.mark.parametrize("stream", [None, io.StringIO()], ids=["none", "closed"])
def test_nobody_is_there_to_see_it(monkeypatch, stream):
    """A stderr that is closed is no reason not to work."""
    if stream is not None:
        stream.close()
    monkeypatch.setattr(sys, "stderr", stream)
    with progress("verifying", 2) as bar:
        bar.advance()
        bar.say("one")
    drawn = Progress("verifying", live=True)
    drawn.draw()
    drawn.erase()

    assert 1 == bar.done
