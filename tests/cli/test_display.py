"""The display while text streams, and its final state: screens compared as text."""

from __future__ import annotations

import re
import sys
import unicodedata

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

if sys.platform == "win32":
    pytest.skip("there are no pseudo-terminals", allow_module_level=True)

from cli.virtual_terminal import VirtualTerminal, Window
from tenuto.agent.events import ToolFinished, ToolProgress, ToolStarted, TurnStarted
from tenuto.cli.session.events import EventPrinter, format_usage
from tenuto.cli.terminal.display import Display
from tenuto.cli.terminal.live_area import LiveArea, StreamingAnswer
from tenuto.cli.terminal.output import detect_terminal
from tenuto.cli.terminal.text import cell_width, cut_cells, fold_cells, truncate, wrap
from tenuto.core.blocks import Reasoning, Text
from tenuto.core.events import (
    ContentDelta,
    ContentDone,
    ContentStart,
    MessageStart,
    TextDelta,
    ThinkingDelta,
    UsageUpdate,
)
from tenuto.core.messages import ToolCallView, ToolResult, Usage

OURS = re.compile(r"\x1b\[(?:[0-9;]*m|\?7[lh]|[0-9]+A|J)|\r(?=\x1b\[)")
"""All control sequences that the display writes: colors, no wrapping, up, erase."""
LINES = st.sampled_from(
    ["Words that are many, so that a row is too short for them.", "", "", "# Head", "- item", "  - sub", "1. one", "```py",
     "```", "x = 'a line of code that is longer than the window is wide'", "| a | b |", "|---|---|", "| 1 | 日本語 |",
     "> quote", "**bold** _words_ 👍 `here`", "日本語" * 9]
)  # fmt: skip
TEXTS = st.lists(LINES, max_size=12).map("\n".join)
HOSTILE = st.lists(
    st.sampled_from(["\x1b[2J", "\x1b]0;x\x07", "\x9b31m", "\u202e", "\r", "\n", "\n\n", "```\n", "- ", "|a|\n|-|\n", "**",
                     "[a](http://\u202e)", "&#x9b;", "&#13;", "\u2028", "\ud800", "\x08", "\x7f"])
    | st.text(max_size=3),
    max_size=12,
).map("".join)  # fmt: skip


class Clock:
    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


@pytest.fixture(autouse=True)
def _terminal(monkeypatch):
    monkeypatch.setenv("TERM", "xterm-256color")
    for name in ("NO_COLOR", "XTERM_VERSION", "STY"):
        monkeypatch.delenv(name, raising=False)


def screen_of(window, color="never", **rest):
    clock = Clock()
    return Display(detect_terminal(color, **rest), clock), clock


def redraw(screen, clock, seconds=0.2):
    clock.now += seconds
    screen.tick()


def pieces_of(data, text):
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=8)))
    return [text[start:end] for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True)]


def at_once(text, columns, rows):
    """Return the screen of an answer in one piece."""
    answer = StreamingAnswer(lambda: columns, color=False)
    answer.feed(text)
    return VirtualTerminal(columns, rows).feed(answer.end().replace("\n", "\r\n")).lines


# --- the answer -------------------------------------------------------------------------------------------------------


@settings(max_examples=30)
@given(TEXTS, st.integers(10, 60), st.integers(3, 20), st.data())
def test_the_pieces_of_an_answer_do_not_matter(text, columns, rows, data):
    with Window(columns, rows) as window:
        screen, clock = screen_of(window)
        screen.status("answering")
        for piece in pieces_of(data, text):
            screen.answer(piece)
            clock.now += data.draw(st.sampled_from([0, 0.2]))
            screen.tick()
        screen.status("")
        screen.end_line()
        lines = window.display.lines

    assert at_once(text, columns, rows) == lines


@settings(max_examples=30)
@given(TEXTS, st.data())
def test_a_resized_window_shows_the_answer_once(text, data):
    with Window(60, 20, reflows=True) as window:
        screen, clock = screen_of(window)
        screen.status("answering")
        for piece in pieces_of(data, text):
            screen.answer(piece)
            if data.draw(st.booleans()):
                window.resize(2 * data.draw(st.integers(10, 35)), 20)  # no half of a wide sign fits at the end of a row
            redraw(screen, clock)
        screen.end_line()
        shown = "".join(window.display.text.split())

    assert sorted(filter(str.isalnum, text)) == sorted(filter(str.isalnum, shown))


def test_a_complete_block_is_written_once():
    with Window(40, 10) as window:
        screen, clock = screen_of(window)
        screen.status("sim is answering")
        for piece in ("First *wo", "rds*.\n\n", "- one\n- two", "\n"):
            screen.answer(piece)
            redraw(screen, clock)
        before = window.display.visible
        raw = window.raw
        screen.answer("\nLast words.\n")
        screen.end_line()

        assert ["First words.", "", " • one", " • two", "| sim is answering"] == before[:5]
        assert 1 == raw.count("First words.")
        assert ["First words.", "", " • one", " • two", "", "Last words."] == window.display.lines


def test_the_end_of_a_long_block_is_visible():
    with Window(30, 6) as window:
        screen, clock = screen_of(window)
        screen.status("answering")
        screen.answer("```\n" + "".join(f"line {number}\n" for number in range(50)))
        redraw(screen, clock)

        assert ["line 47", "line 48", "line 49", "/ answering"] == window.display.lines
        screen.answer("```\n")
        screen.end_line()
        assert ["```", *(f"line {number}" for number in range(50)), "```"] == window.display.lines


def test_a_redraw_does_not_grow_with_the_answer(monkeypatch):
    sizes = []

    def typeset(text, columns, *, color):
        sizes.append(len(text))
        return text.split("\n")

    monkeypatch.setattr("tenuto.cli.terminal.markdown.render_block", typeset)
    with Window(40, 10) as window:
        screen, clock = screen_of(window)
        for _ in range(300):
            screen.answer("- an item of a very long list\n")
            redraw(screen, clock)
            screen.tick()
        screen.end_line()

    assert 300 * len("- an item of a very long list\n") <= sizes.pop()
    assert max(sizes) <= 40 * 10


def test_the_terminal_cuts_rows_that_are_too_wide():
    with Window(20, 6) as window:
        area = LiveArea(window, reflows=False)
        window.write("Above.\n")
        for sign in "abc":
            area.draw([sign * 50, sign])

        assert ["Above.", "c" * 20, "c"] == window.display.lines
        area.erase()
        assert ["Above."] == window.display.lines


def test_streaming_code_is_cut_at_the_window():
    answer = StreamingAnswer(lambda: 20, color=True)
    answer.feed("```python\nreturn 'a string that is quite long 日本語'\n")
    row = answer.rows(20, 5)[1]

    assert "return 'a string tha" == OURS.sub("", row)
    assert row.endswith("\x1b[0m")


def test_a_narrower_window_without_reflow_keeps_the_text_above(monkeypatch):
    monkeypatch.setenv("XTERM_VERSION", "XTerm(390)")
    with Window(60, 12) as window:
        screen, clock = screen_of(window)
        screen.status("answering")
        screen.answer("Above.\n\nWords that are many, so that a narrower window has no room for them in one row.")
        screen.tick()
        window.resize(24, 12)
        redraw(screen, clock)
        hidden = window.display.lines
        redraw(screen, clock)

        assert ["Above."] == hidden
        assert [
            "Above.",
            "",
            "Words that are many, so",
            "that a narrower window",
            "has no room for them in",
            "one row.",
        ] == (window.display.lines[:-1])


# --- thinking ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "count, live, left",
    [
        (3, [1, 2, 3], [1, 2, 3]),
        (20, [17, 18, 19, 20], [1, 2, "... 18 more lines (tenuto show has them)"]),
    ],
)
def test_thinking_streams_its_end_and_leaves_its_start(count, live, left):
    with Window(40, 12) as window:
        screen, clock = screen_of(window, "always")
        screen.status("sim is thinking")
        for number in range(1, count + 1):
            screen.thinking(f"{number}\n")
            redraw(screen, clock)
        coming = window.display.lines
        screen.answer("So.")
        screen.end_line()

        assert [*map(str, live)] == coming[:-1]
        assert "sim is thinking" in coming[-1]
        assert [*map(str, left), "So."] == window.display.lines
        assert f"\x1b[2;3m{left[-1]}\x1b[0m\n" in window.raw


def test_hidden_thinking():
    with Window() as window:
        screen, clock = screen_of(window)
        view = EventPrinter(screen, "sim", thinking=False)
        view.handle(ContentStart(0, 0, Reasoning("")))
        view.handle(ContentDelta(0, 0, ThinkingDelta("Secret.")))
        redraw(screen, clock, 2)
        seen = window.display.lines
        view.handle(ContentDone(0, 0, Reasoning("Secret.")))

        assert ["/ sim is thinking  2 s"] == seen
        assert "Secret" not in window.raw


# --- everything else --------------------------------------------------------------------------------------------------


@settings(max_examples=50)
@given(HOSTILE, st.booleans(), st.data())
def test_only_our_own_control_sequences_reach_the_terminal(text, color, data):
    with Window(30, 8) as window:
        screen, clock = screen_of(window, "always" if color else "never")
        view = EventPrinter(screen, text, thinking=True)
        view.handle(TurnStarted(1))
        for delta in (ThinkingDelta, TextDelta):
            for piece in pieces_of(data, text):
                view.handle(ContentDelta(0, 0, delta(piece)))
                redraw(screen, clock)
        call = ToolCallView("1", text, text, "function", None)
        view.handle(ToolStarted(call, 0))
        screen.tick()
        view.handle(ToolProgress(call, 0, text))
        view.handle(ToolFinished(call, 0, ToolResult("1", text)))
        screen.end_line()
        left = OURS.sub("", window.raw)

    assert {sign for sign in left if unicodedata.category(sign) in ("Cc", "Cf", "Cs", "Zl", "Zp")} <= set(
        "\n\t\u200c\u200d"
    )
    assert color or "m" not in {code[-1] for code in OURS.findall(window.raw)}


def test_two_calls_at_once():
    one, two = (ToolCallView(name, name, '{"depth": 3}', "function", None) for name in ("dig", "drill"))
    with Window() as window:
        screen, clock = screen_of(window)
        view = EventPrinter(screen, "sim", thinking=True)
        for ordinal, call in enumerate((one, two)):
            view.handle(ToolStarted(call, ordinal))
        clock.now += 1
        view.handle(ToolProgress(one, 0, "half"))
        screen.tick()
        both = window.display.lines
        view.handle(ToolFinished(two, 1, ToolResult("drill", "\n".join(f"\t{number} m" for number in range(1, 8)))))
        screen.tick()
        left = window.display.lines
        view.handle(ToolFinished(one, 0, ToolResult("dig", "wet\nfeet", is_error=True), "failed"))

        started = ["> dig depth=3", "> drill depth=3", ". dig: half"]
        drilled = ["< drill: 1 m", "            2 m", "            3 m", "            4 m", "    (3 more lines)"]
        assert [*started, "/ running dig, drill  1 s"] == both
        assert [*started, *drilled, "- running dig"] == left
        assert [*started, *drilled, "! dig: wet", "    feet"] == window.display.lines


def test_a_message_is_printed_above_the_streaming_block():
    with Window() as window:
        screen, _ = screen_of(window)
        screen.answer("```\ncode\n")
        screen.message("stopping")
        screen.answer("- more code\n```\n")
        screen.end_line()

        assert ["stopping", "```", "code", "- more code", "```"] == window.display.lines


def test_nothing_is_drawn_during_a_prompt():
    with Window() as window:
        screen, clock = screen_of(window)
        screen.status("running dig")
        screen.tick()
        with screen.prompt("? "):
            before = window.raw
            screen.info("later")
            screen.thinking("A thought.")
            screen.answer("An answer.")
            redraw(screen, clock, 9)
            screen.end_line()
            same = window.raw == before
            print("yes")

        assert same
        assert ["? yes", "later", "A thought.", "An answer."] == window.display.lines


@pytest.mark.parametrize("begun, left", [("Half of ", []), ("Whole.\n\nHalf of ", ["Whole.", "! reply interrupted"])])
def test_an_interrupted_reply_is_erased_or_reported(begun, left):
    with Window(100, 9) as window:
        screen, clock = screen_of(window)
        view = EventPrinter(screen, "sim", thinking=True)
        view.handle(TurnStarted(1))
        view.handle(MessageStart("1", "sim"))
        view.handle(ContentDelta(0, 0, TextDelta(begun)))
        redraw(screen, clock)
        view.handle(MessageStart("2", "sim"))
        view.handle(ContentDelta(0, 0, TextDelta("All of it.")))
        screen.end_line()

        assert [*left, "All of it."] == [line.partition(" (")[0] for line in window.display.lines]


def test_the_status_line():
    with Window(40, 5) as window:
        screen, clock = screen_of(window)
        view = EventPrinter(screen, "sim/anthropic", thinking=True)
        seen = []
        for event in (
            TurnStarted(1), ContentStart(0, 0, Text("")), UsageUpdate(Usage(1000, 200, None, 34)), ContentStart(0, 1, Reasoning("")),
        ):  # fmt: skip
            view.handle(event)
            redraw(screen, clock, 1.5)
            seen += window.display.lines
        screen.status("")

        assert [
            "/ asking sim/anthropic  1 s",
            "- sim/anthropic is answering  1 s",
            "\\ sim/anthropic is answering  3 s  1...",
            "| sim/anthropic is thinking  1 s  1,...",
        ] == seen
        assert [] == window.display.lines


def test_a_dumb_terminal_gets_plain_text(monkeypatch):
    monkeypatch.setenv("TERM", "dumb")
    with Window() as window:
        screen, clock = screen_of(window, "auto")
        screen.status("thinking")
        screen.thinking("Hm.")
        redraw(screen, clock, 9)
        screen.answer("**So")
        half = window.raw
        screen.answer("**\x1b.")
        screen.end_line()

        assert "Hm.\n**So" == half
        assert "Hm.\n**So**\\x1b.\n" == window.raw


def test_thinking_on_a_terminal_with_a_piped_answer(monkeypatch, capsys):
    pipe = sys.stdout
    with Window() as window:
        monkeypatch.setattr(sys, "stdout", pipe)
        screen, clock = screen_of(window)
        screen.thinking("Hm.")
        screen.answer("**So.**")
        redraw(screen, clock)
        coming = window.display.lines
        screen.end_line()
        screen.finish("**So.**")
        monkeypatch.setattr(sys, "stdout", window)

        assert ["Hm."] == coming == window.display.lines
    assert "**So.**\n" == capsys.readouterr().out


@given(st.text(max_size=20))
def test_the_last_line_ends(text):
    assume(text.strip())
    with Window() as window:
        screen, _ = screen_of(window)
        screen.answer(text)
        screen.end_line()
        raw = OURS.sub("", window.raw)

    assert not raw or raw.endswith("\n")


@settings(max_examples=50)
@given(st.text("ab 日\u0301\n\t"), st.integers(1, 12))
def test_wrapped_rows_fit_and_keep_every_word(text, columns):
    found = list(wrap(text, columns))

    assert all(cell_width(row) <= max(columns, 2) for row in found)
    assert "".join(text.split()) == "".join("".join(found).split())
    text = " ".join(text.split())
    assert cell_width(truncate(text, columns)) <= columns
    assert text.startswith(cut_cells(text, columns))
    assert "".join(fold_cells(text, columns)) == text


def test_rows_are_cut_between_words():
    assert ["one two", "three", "threefour", "five"] == list(wrap("one two three threefourfive", 9))
    assert (["日", "本", "語"], [""], ["abc", "d"]) == tuple(fold_cells(line, 3) for line in ("日本語", "", "abcd"))
    assert ("日本...", "日本語") == (truncate("日本語日本語", 8), truncate("日本語", 8))


@pytest.mark.parametrize(
    "usage, cost, seconds, line",
    [
        (Usage(234, 1000, None, 56), 0.0012, 2.34, "sim/x  1,234 in (1,000 cached)  56 out  $0.0012  2.3 s"),
        (Usage(5, None, None, 2, 3), 0, None, "sim/x  5 in  5 out  $0"),
        (Usage(), 12.5, 60.0, "sim/x  $12.50  60.0 s"),
        (None, 0.00001, None, "sim/x  < $0.0001"),
        (None, None, None, "sim/x"),
    ],
)
def test_usage_in_one_line(usage, cost, seconds, line):
    assert line == format_usage(usage, cost, seconds, "sim/x")
