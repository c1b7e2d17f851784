"""Streamed Markdown: block boundaries and rendering."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tenuto.cli.terminal.live_area import StreamingAnswer
from tenuto.cli.terminal.markdown import _PARSER, end_of_block, render_block, split_blocks
from tenuto.cli.terminal.text import escape_control, wrap

COLOR = re.compile(r"\x1b\[[0-9;]*m")
LINES = st.sampled_from(
    ["words", "more words", "", "", "# Head", "---", "===", "***", "- item", "* star", "  under", "   under", "  - sub",
     "   - sub", "1. one", "2. two", "10. ten", "```py", "```", "~~~", "  ```", "    indented", "    ```", "\ttab", "| a | b |",
     "|---|---|", "| 1 | 2 |", "> quote", "<div>", "x = 1"]
)  # fmt: skip
BITS = st.sampled_from(
    ["- ", "1. ", "> ", "# ", "```", "```py\n", "~~~", "|", "---|---", "\n", "\n\n", "    ", "**", "*", "_", "`", "[",
     "](", "http://a.b/ü", ")", "![", "<b>", "&#x202e;", "&#13;", "&amp;", "<http://a/%E2%80%AE>", "\t", "  \n", "\\",
     "日本", "word", "👨‍👩‍👧", "===", "[x]: y", "\x1b[31m", "\x1b]8;;http://evil\x07", "\u202e", "\r", "\r\n", "<a@b.c>", "~~"]
)  # fmt: skip
ANYTHING = st.lists(BITS | st.text(max_size=4), max_size=25).map("".join)


@given(ANYTHING, st.data())
def test_the_pieces_do_not_matter(text, data):
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)))))
    answers = [StreamingAnswer(lambda: 40, color=False) for _ in range(2)]
    printed = []
    for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True):
        answers[0].feed(text[start:end])
        printed.append(answers[0].take())
    answers[1].feed(text)

    assert answers[1].end() == "".join([*printed, answers[0].end()])


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


@pytest.mark.parametrize("line", ["word " * 4, "x" * 50])
@pytest.mark.parametrize("head", ["", "```py\n", "|a|b|\n|-|-|\n"])
def test_the_visible_end_of_a_block_is_bounded(head, line):
    end = end_of_block(head + f"{line}\n" * 500, 40, 10)

    assert end.startswith(head)
    assert end.count("\n") <= 10 + head.count("\n")
    assert len(end) <= 11 * 40 + len(head)


# --- set --------------------------------------------------------------------------------------------------------------


@given(ANYTHING, st.integers(1, 90), st.booleans())
def test_rendering_keeps_all_letters_and_no_control_sequences(text, columns, color):
    lines = render_block(escape_control(text), columns, color=color)
    plain = COLOR.sub("", "\n".join(lines)) if color else "\n".join(lines)

    assert Counter(filter(str.isalnum, escape_control(text))) <= Counter(filter(str.isalnum, plain))
    assert {sign for sign in plain if unicodedata.category(sign) in ("Cc", "Cf", "Cs", "Zl", "Zp")} <= set(
        "\n\t\u200c\u200d"
    )
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
