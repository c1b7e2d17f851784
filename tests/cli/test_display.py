"""The display while text streams, its final state, and Markdown: screens compared as text."""

from __future__ import annotations

import re
import sys
import unicodedata
from contextlib import contextmanager

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

if sys.platform == "win32":
    pytest.skip("there are no pseudo-terminals", allow_module_level=True)

import json
from collections import Counter

import pytest
from hypothesis import example

from cli.virtual_terminal import VirtualTerminal, Window
from tenuto.agent.events import ToolFinished, ToolProgress, ToolStarted, TurnStarted
from tenuto.cli.session.events import EventPrinter, format_usage
from tenuto.cli.terminal.display import Display
from tenuto.cli.terminal.live_area import LiveArea, StreamingAnswer
from tenuto.cli.terminal.markdown import _PARSER, render_block, split_blocks
from tenuto.cli.terminal.output import detect_terminal
from tenuto.cli.terminal.text import (
    cell_width,
    cut_cells,
    escape_control,
    escape_json,
    fold_cells,
    one_line,
    truncate,
    wrap,
)
from tenuto.core.blocks import Reasoning, Text
from tenuto.core.events import ContentDelta, ContentStart, MessageStart, TextDelta, ThinkingDelta, UsageUpdate
from tenuto.core.messages import ToolCallView, ToolResult, Usage

OURS = re.compile(r"\x1b\[(?:[0-9;]*m|\?7[lh]|[0-9]+A|J)|\r(?=\x1b\[)")
"""All control sequences that the display writes: colors, no wrapping, up, erase."""
COLOR = re.compile(r"\x1b\[[0-9;]*m")
LINES = st.sampled_from(
    ["Words that are many, so that a row is too short for them.", "words", "", "", "# Head", "---", "===", "- item", "* star",
     "  under", "   under", "  - sub", "   - sub", "1. one", "10. ten", "```py", "```", "~~~", "  ```", "    indented", "    ```",
     "x = 'a line of code that is longer than the window is wide'", "| a | b |", "|---|---|", "| 1 | 日本語 |", "> quote",
     "**bold** _words_ 👍 `here`", "日本語" * 9, "<div>", "\ttab"]
)  # fmt: skip
TEXTS = st.lists(LINES, max_size=12).map("\n".join)
BITS = st.sampled_from(
    ["- ", "1. ", "> ", "# ", "```", "```py\n", "~~~", "|", "|a|\n|-|\n", "\n", "\n\n", "    ", "**", "*", "_", "`", "[",
     "](", "http://a.b/ü", ")", "![", "<b>", "&#x202e;", "&#13;", "&amp;", "<http://a/%E2%80%AE>", "\t", "  \n", "\\",
     "日本", "word", "👨‍👩‍👧", "===", "[x]: y", "\x1b[2J", "\x1b]8;;http://evil\x07", "\u202e", "\r", "\r\n", "~~", "\x9b31m",
     "\u2028", "\ud800", "\x08", "\x7f"]
)  # fmt: skip
ANYTHING = st.lists(BITS | st.text(max_size=4), max_size=25).map("".join)
CONTROL = ("Cc", "Cf", "Cs", "Zl", "Zp")
"""Categories of control characters; only some of them may be printed."""


def control_characters(text):
    return {sign for sign in text if unicodedata.category(sign) in CONTROL} - set("\n\t\u200c\u200d")


class Stage:
    """A display on a window, with a clock that only `redraw` moves."""

    def __init__(self, window, color):
        self.window = window
        self.now = 0.0
        self.screen = Display(detect_terminal(color), lambda: self.now)

    def redraw(self, seconds=0.2):
        self.now += seconds
        self.screen.tick()
        return self.window.display.lines

    def end(self):
        """End the last line; return all lines of the window."""
        self.screen.end_line()
        return self.window.display.lines

    def handle(self, printer, *events):
        for event in events:
            printer.handle(event)


@contextmanager
def staged(columns=80, rows=24, color="never", *, reflows=False):
    with Window(columns, rows, reflows=reflows) as window:
        yield Stage(window, color)


@pytest.fixture(autouse=True)
def _terminal(monkeypatch):
    monkeypatch.setenv("TERM", "xterm-256color")
    for name in ("NO_COLOR", "XTERM_VERSION", "STY"):
        monkeypatch.delenv(name, raising=False)


def pieces_of(data, text):
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=8)))
    return [text[start:end] for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True)]


@settings(max_examples=30)
@given(TEXTS, st.integers(10, 60), st.integers(3, 20), st.data())
def test_the_pieces_of_an_answer_do_not_matter(text, columns, rows, data):
    answer = StreamingAnswer(lambda: columns, color=False)
    answer.feed(text)
    expected = VirtualTerminal(columns, rows).feed(answer.end().replace("\n", "\r\n")).lines
    with staged(columns, rows) as stage:
        stage.screen.status("answering")
        for piece in pieces_of(data, text):
            stage.screen.answer(piece)
            stage.redraw(data.draw(st.sampled_from([0, 0.2])))
        stage.screen.status("")
        lines, cursor = stage.end(), stage.window.display.screen.cursor

    assert (expected, 0) == (lines, cursor.x)


@settings(max_examples=30)
@given(TEXTS, st.data())
def test_a_resized_window_shows_the_answer_once(text, data):
    with staged(60, 20, reflows=True) as stage:
        stage.screen.status("answering")
        for piece in pieces_of(data, text):
            stage.screen.answer(piece)
            if data.draw(st.booleans()):
                stage.window.resize(2 * data.draw(st.integers(10, 35)), 20)  # a wide character fits at the end of a row
            stage.redraw()
        shown = "".join("".join(stage.end()).split())

    assert sorted(filter(str.isalnum, text)) == sorted(filter(str.isalnum, shown))


def test_a_complete_block_is_written_once():
    with staged(40, 10) as stage:
        stage.screen.status("sim is answering")
        for piece in ("First *wo", "rds*.\n\n", "- one\n- two", "\n"):
            stage.screen.answer(piece)
            before = stage.redraw()
        stage.screen.answer("\nLast words.\n")

        assert ["First words.", "", " • one", " • two", "| sim is answering"] == before
        assert ["First words.", "", " • one", " • two", "", "Last words."] == stage.end()
        assert 1 == stage.window.raw.count("First words.")


def test_the_end_of_a_long_block_is_visible():
    with staged(30, 6) as stage:
        stage.screen.status("answering")
        stage.screen.answer("```\n" + "".join(f"line {number}\n" for number in range(50)))

        assert ["line 47", "line 48", "line 49", "/ answering"] == stage.redraw()
        stage.screen.answer("```\n")
        assert ["```", *(f"line {number}" for number in range(50)), "```"] == stage.end()


def test_a_redraw_does_not_grow_with_the_answer(monkeypatch):
    sizes, item = [], "- an item of a very long list\n"

    def render(text, columns, *, color):
        sizes.append(len(text))
        return text.split("\n")

    monkeypatch.setattr("tenuto.cli.terminal.markdown.render_block", render)
    with staged(40, 10) as stage:
        for _ in range(300):
            stage.screen.answer(item)
            stage.redraw()
        stage.end()

    assert 300 * len(item) <= sizes.pop()
    assert max(sizes) <= 40 * 10


def test_rows_that_are_too_wide_are_cut():
    """By the terminal; code by the display, which ends its colors."""
    with Window(20, 6) as window:
        area = LiveArea(window, reflows=False)
        window.write("Above.\n")
        for sign in "abc":
            area.draw([sign * 50, sign])

        assert ["Above.", "c" * 20, "c"] == window.display.lines
        area.erase()
        assert ["Above."] == window.display.lines
    answer = StreamingAnswer(lambda: 20, color=True)
    answer.feed("```python\nreturn 'a string that is quite long 日本語'\n")
    row = answer.rows(20, 5)[1]
    assert ("return 'a string tha", True) == (OURS.sub("", row), row.endswith("\x1b[0m"))


@pytest.mark.parametrize(
    "count, live, left",
    [
        (3, [1, 2, 3], [1, 2, 3]),
        (20, [17, 18, 19, 20], [1, 2, "... 18 more lines (tenuto show has them)"]),
    ],
)
def test_thinking_streams_its_end_and_leaves_its_start(count, live, left):
    with staged(40, 12, "always") as stage:
        stage.screen.status("sim is thinking")
        for number in range(1, count + 1):
            stage.screen.thinking(f"{number}\n")
            coming = stage.redraw()
        stage.screen.answer("So.")

        assert [*map(str, live)] == coming[:-1]
        assert "sim is thinking" in coming[-1]
        assert [*map(str, left), "So."] == stage.end()
        assert f"\x1b[2;3m{left[-1]}\x1b[0m\n" in stage.window.raw


def test_hidden_thinking_and_the_status_line():
    with staged(40, 5) as stage:
        printer = EventPrinter(stage.screen, "sim/anthropic", thinking=False)
        seen = []
        for event in (
            *(TurnStarted(1), ContentStart(0, 0, Text("")), UsageUpdate(Usage(1000, 200, None, 34))),
            *(ContentStart(0, 1, Reasoning("")), ContentDelta(0, 1, ThinkingDelta("Secret."))),
        ):
            printer.handle(event)
            seen += stage.redraw(1.5)
        stage.screen.status("")

        assert [
            "/ asking sim/anthropic  1 s",
            "- sim/anthropic is answering  1 s",
            "\\ sim/anthropic is answering  3 s  1...",
            "| sim/anthropic is thinking  1 s  1,...",
            "/ sim/anthropic is thinking  3 s  1,...",
        ] == seen
        assert [] == stage.end()
        assert "Secret" not in stage.window.raw


def test_thinking_on_a_terminal_with_a_piped_answer(monkeypatch, capsys):
    pipe = sys.stdout
    with staged() as stage:
        monkeypatch.setattr(sys, "stdout", pipe)
        stage.screen = Display(detect_terminal("never"))
        stage.screen.thinking("Hm.")
        stage.screen.answer("**So.**")
        lines = stage.end()
        stage.screen.finish("**So.**")
        monkeypatch.setattr(sys, "stdout", stage.window)

        assert ["Hm."] == lines
    assert "**So.**\n" == capsys.readouterr().out


@settings(max_examples=50)
@given(ANYTHING, st.booleans(), st.data())
def test_only_our_own_control_sequences_reach_the_terminal(text, color, data):
    with staged(30, 8, "always" if color else "never") as stage:
        printer = EventPrinter(stage.screen, text, thinking=True)
        printer.handle(TurnStarted(1))
        for delta in (ThinkingDelta, TextDelta):
            for piece in pieces_of(data, text):
                printer.handle(ContentDelta(0, 0, delta(piece)))
                stage.redraw()
        call = ToolCallView("1", text, text, "function", None)
        printer.handle(ToolStarted(call, 0))
        stage.screen.tick()
        stage.handle(printer, ToolProgress(call, 0, text), ToolFinished(call, 0, ToolResult("1", text)))
        stage.end()
        left = OURS.sub("", stage.window.raw)

    assert set() == control_characters(left)
    assert color or "m" not in {code[-1] for code in OURS.findall(stage.window.raw)}


def test_two_calls_at_once():
    one, two = (ToolCallView(name, name, '{"depth": 3}', "function", None) for name in ("dig", "drill"))
    result = "\n".join(f"\t{number} m" for number in range(1, 8))
    with staged(color="always") as stage:
        printer = EventPrinter(stage.screen, "sim", thinking=True)
        stage.handle(printer, ToolStarted(one, 0), ToolStarted(two, 1))
        stage.now += 1
        printer.handle(ToolProgress(one, 0, "half"))
        both = stage.redraw(0)
        printer.handle(ToolFinished(two, 1, ToolResult("drill", result)))
        left = stage.redraw(0)
        printer.handle(ToolFinished(one, 0, ToolResult("dig", "wet\nfeet", is_error=True), "failed"))

        started = ["> dig depth=3", "> drill depth=3", ". dig: half"]
        drilled = ["< drill: 1 m", "            2 m", "            3 m", "            4 m", "    (3 more lines)"]
        assert [*started, "/ running dig, drill  1 s"] == both
        assert [*started, *drilled, "- running dig"] == left
        assert [*started, *drilled, "! dig: wet", "    feet"] == stage.window.display.lines
        assert "\x1b[36m> dig\x1b[0m depth=3" in stage.window.raw


def test_a_message_is_printed_above_the_streaming_block():
    with staged() as stage:
        stage.screen.answer("```\ncode\n")
        stage.screen.message("stopping")
        stage.screen.answer("- more code\n```\n")

        assert ["stopping", "```", "code", "- more code", "```"] == stage.end()


def test_nothing_is_drawn_during_a_prompt():
    with staged() as stage:
        stage.screen.status("running dig")
        stage.screen.tick()
        with stage.screen.prompt("? "):
            before = stage.window.raw
            stage.screen.info("later")
            stage.screen.thinking("A thought.")
            stage.screen.answer("An answer.")
            stage.redraw(9)
            stage.end()
            assert before == stage.window.raw
            print("yes")

        assert ["? yes", "later", "A thought.", "An answer."] == stage.window.display.lines


@pytest.mark.parametrize("begun, left", [("Half of ", []), ("Whole.\n\nHalf of ", ["Whole.", "! reply interrupted"])])
def test_an_interrupted_reply_is_erased_or_reported(begun, left):
    with staged(100, 9) as stage:
        printer = EventPrinter(stage.screen, "sim", thinking=True)
        stage.handle(printer, TurnStarted(1), MessageStart("1", "sim"), ContentDelta(0, 0, TextDelta(begun)))
        stage.redraw()
        stage.handle(printer, MessageStart("2", "sim"), ContentDelta(0, 0, TextDelta("All of it.")))

        assert [*left, "All of it."] == [line.partition(" (")[0] for line in stage.end()]


def test_a_dumb_terminal_gets_plain_text(monkeypatch):
    monkeypatch.setenv("TERM", "dumb")
    with staged(color="auto") as stage:
        stage.screen.status("thinking")
        stage.screen.thinking("Hm.")
        stage.redraw(9)
        stage.screen.answer("**So")
        half = stage.window.raw
        stage.screen.answer("**\x1b.")
        stage.end()

        assert ("Hm.\n**So", "Hm.\n**So**\\x1b.\n") == (half, stage.window.raw)


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


@given(st.lists(LINES, max_size=10))
@example(["- item", "  ```", "  ```", "words", "10. ten"])
@example(["* star", "  ```", "words", "---"])
@example(["```", "    ```", "```"])
def test_blocks_render_like_the_whole_text(lines):
    text = "".join(f"{line}\n" for line in lines)
    blocks = split_blocks(text)

    assert text == "".join(blocks)
    assert _PARSER.render(text) == "".join(map(_PARSER.render, blocks))


def test_blocks():
    blocks = [
        "# Title\n", "Words,\nmore.\n\n\n", "- a\n\n  b\n- c\n\n", "1. d\n", "```py\nx\n\n- y\n```\n",
        "|a|\n|-|\n|b|\n\n", "> q\n> r\n\n",
    ]  # fmt: skip

    assert split_blocks("".join(blocks)) == [*blocks, ""]
    for rest in ("    z\n\n", "- a\n\n", "words\n", "```\n\n\n"):
        assert split_blocks("".join([*blocks, rest])) == [*blocks, rest]


@given(ANYTHING, st.integers(1, 90), st.booleans())
def test_rendering_keeps_all_letters_and_no_control_sequences(text, columns, color):
    lines = render_block(escape_control(text), columns, color=color)
    plain = COLOR.sub("", "\n".join(lines)) if color else "\n".join(lines)

    assert Counter(filter(str.isalnum, escape_control(text))) <= Counter(filter(str.isalnum, plain))
    assert set() == control_characters(plain)
    assert not any("\n" in line for line in lines)


def test_each_kind_of_block():
    text = """\
# Title of `it`
Some **bold** words,
*ended*, and a [link](http://x.y/z), ![a picture](http://p.q/r), <b>HTML</b> &amp; so on.

- one 日本
  - two
    ```py
    x = 1
    ```
3. three
4. four

| name | count |
|------|------:|
| café | 1 |

> said

---
```python
\tx = "a long line of code, which is not broken"
```
[ref]: http://u.v
**and** <http://w.x/%E2%80%AE>
"""
    answer = StreamingAnswer(lambda: 40, color=False)
    answer.feed(text)

    assert (
        answer.end()
        == """\
# Title of it

Some bold words,
ended, and a link (http://x.y/z), ![a
picture](http://p.q/r), <b>HTML</b>
&amp; so on.

 • one 日本
    • two
      ```py
      x = 1
      ```

 3 three
 4 four

 name  count
 ───────────
 café      1

▌ said

----------------------------------------

```python
\tx = "a long line of code, which is not broken"
```

[ref]: http://u.v
and http://w.x/\\u202e
(http://w.x/%E2%80%AE)
"""
    )


def test_colors():
    lines = render_block("**bold** and [here](http://x.y)", 80, color=True)
    code = render_block("```python\ndef f():\n    return 1\n```", 80, color=True)
    tabs = render_block("```make\nall:\n\techo\n```", 80, color=True)

    assert ["\x1b[1mbold\x1b[0m and \x1b[1mhere\x1b[0m (\x1b[4mhttp://x.y\x1b[0m)"] == lines
    assert ["```python", "def f():", "    return 1", "```"] == [COLOR.sub("", line) for line in code]
    assert re.search(r"\x1b\[[0-9;]*m(def|return)\x1b", code[1])
    assert ["<div>", "b"] == render_block("<div>\n**b**", 80, color=False)
    assert "\techo" == COLOR.sub("", tabs[2])


@pytest.mark.parametrize(
    "text",
    ["| a | b |\n|---|---|\n| 1 | 2 | lost |", '[a](b "lost")', "1. a\n1. b", "> " * 30 + "deep", "|a" * 40 + "\n" + "|-" * 40],
    ids=["cell", "title", "numbers", "depth", "columns"],
)  # fmt: skip
def test_blocks_that_rich_would_shorten_are_shown_as_written(text):
    assert list(wrap(text, 40)) == render_block(text, 40, color=False)


ANY = st.text(st.characters() | st.sampled_from("\x1b\x07\x9b\u202e\u2066\u200d\u2028\r\n\t\ud800\U000e0041"))


@given(ANY)
def test_only_control_characters_are_escaped(text):
    escaped = escape_control(text)

    assert set() == control_characters(escaped)
    assert escaped == escape_control(escaped)
    assert control_characters(text) or "\r" in text or escaped == text


def test_hidden_characters_are_escaped():
    assert r"\x1b[31mred\x07 \u202eevil \U000e0041" == escape_control("\x1b[31mred\x07 \u202eevil \U000e0041")
    assert "one\ntwo\\rthree" == escape_control("one\r\ntwo\rthree")


@given(ANY, st.integers(10, 50))
def test_one_line(text, most):
    line = one_line(text, most)

    assert len(line) <= most
    assert "\n" not in line


@given(st.dictionaries(ANY, ANY))
def test_escaped_json_is_equal(value):
    document = escape_json(json.dumps(value, ensure_ascii=False))

    assert document == escape_control(document)
    assert json.loads(document) == value
