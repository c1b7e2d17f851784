"""Split Markdown into blocks, and render a block as lines for a terminal, with rich.

The lines contain all letters and digits of the block: if rendering would drop some (Markdown ignores parts, a narrow table
has no room), the block is shown as written. URLs are shown; HTML is not interpreted. All text is escaped before.
"""

from __future__ import annotations

import io
import re
from collections import Counter
from itertools import pairwise

from markdown_it import MarkdownIt
from markdown_it.token import Token
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.markdown import CodeBlock, Heading, Markdown
from rich.syntax import Syntax
from rich.text import Text
from rich.theme import Theme

from tenuto.cli.terminal.text import escape_control, wrap

_PARSER = MarkdownIt("commonmark").enable(["strikethrough", "table"])
"""Without syntax that makes text vanish: HTML, definitions of links, names of characters."""
_PARSER.disable(["reference", "html_block", "html_inline", "entity"])
_CONTINUE_AFTER_BLANK = ("bullet_list_open", "ordered_list_open", "code_block")
_FENCE = re.compile(r" {0,3}(`{3,}(?=[^`\n]*$)|~{3,})", re.MULTILINE)
_COLORS = re.compile(r"\x1b\[[0-9;]*m")
_END_OF_LINE = re.compile(r" +(?=(?: |\x1b\[[0-9;]*m)*$)")
_MAX_LENGTH = 60_000  # longer blocks are shown as written: rendering would be slow
_CODE_THEME = "ansi_dark"  # colors of the terminal's own
_THEME = Theme(
    {
        "markdown.code": "cyan",
        "markdown.code_block": "none",
        "markdown.h1": "bold underline",
        "markdown.h2": "bold",
        "markdown.link": "bold",
        "markdown.link_url": "underline",
        "markdown.table.header": "bold",
        **{f"markdown.{name}": "dim" for name in ("block_quote", "hr", "item.bullet", "item.number", "table.border")},
    }
)


def split_blocks(text: str) -> list[str]:
    """Split complete lines into top-level blocks. The last one is the rest, to which later lines may belong."""
    lines = text.splitlines(keepends=True)
    tokens: list[Token] = []
    _PARSER.block.parse(text, _PARSER, {}, tokens)
    blocks = [(token.type, token.map) for token in tokens if token.level == 0 and token.map]
    starts = [0, *(start for _, (start, _) in blocks[1:]), len(lines)]
    if blocks and blocks[-1][1][1] < len(lines) and blocks[-1][0] not in _CONTINUE_AFTER_BLANK:
        starts.append(len(lines))
    return ["".join(lines[start:end]) for start, end in pairwise(starts)]


def end_of_block(text: str, columns: int, rows: int) -> str:
    """Return the end of a block that fits on the screen, after the first lines of code or a table."""
    count = 1 if _FENCE.match(text) else 2 if "|" in text.partition("\n")[0] else 0
    *head, body = text.split("\n", count)
    tail = body[-rows * columns :].split("\n")[-rows:]
    return "\n".join([*(line[: 2 * columns] for line in head), *tail])


def render_block(block: str, columns: int, *, color: bool) -> list[str]:
    """Return the lines of a block; [] if it is empty. Lines of code may be longer than `columns`.

    The block must be escaped; the only control sequences of the result are colors.
    """
    text = block.strip("\n")
    if not text.strip():
        return []
    if len(text) > _MAX_LENGTH:
        return list(wrap(text, columns))
    if fence := _FENCE.match(text):
        return _render_code(text, fence[1], color=color)
    lines = _render(_EscapedMarkdown(text, marks=not color), columns, color=color)
    full = [at for at, line in enumerate(lines) if _COLORS.sub("", line).strip()]
    lines = lines[full[0] : full[-1] + 1] if full else []
    is_complete = _count_characters(text) <= _count_characters(_COLORS.sub("", "".join(lines)))
    return lines if is_complete else list(wrap(text, columns))


def _count_characters(text: str) -> Counter[str]:
    return Counter(filter(str.isalnum, text))


def _render_code(text: str, fence: str, *, color: bool) -> list[str]:
    """Return code as it was written, between its fences: it can be copied."""
    first, *lines = text.split("\n")
    language = first.strip().removeprefix(fence).split(None, 1)[:1]
    if not color or not language:
        return [first, *lines]
    last = [lines.pop()] if lines and lines[-1].strip() and not lines[-1].strip().strip(fence[0]) else []
    painted = Syntax("", language[0], theme=_CODE_THEME, background_color="default").highlight("\n".join(lines))
    painted.no_wrap, painted.overflow = True, "ignore"
    code = _render(painted, len(text) + 1, color=True)[: len(lines)]
    return [first, *(code if _COLORS.sub("", "\n".join(code)) == "\n".join(lines) else lines), *last]


def _render(what: RenderableType, columns: int, *, color: bool) -> list[str]:
    console = Console(
        file=io.StringIO(), width=columns, height=100, force_terminal=True, legacy_windows=False, theme=_THEME,
        color_system="standard" if color else None, markup=False, highlight=False, emoji=False,
    )  # fmt: skip
    with console.capture() as capture:
        console.print(what, soft_wrap=isinstance(what, Text))
    return [_END_OF_LINE.sub("", line) for line in capture.get().split("\n")]


class _EscapedMarkdown(Markdown):
    """A block in which line ends, images, fences and, with `marks`, the marks of headings stay visible."""

    def __init__(self, text: str, *, marks: bool) -> None:
        super().__init__("", hyperlinks=False, code_theme=_CODE_THEME)
        self.parsed = _PARSER.parse(text)
        for before, token in pairwise([None, *self.parsed]):
            assert token is not None
            if token.type == "fence":
                token.content = f"{token.markup}{token.info}\n{token.content}{token.markup}\n"
            for child in token.children or ():
                _keep_visible(child)
            if marks and before is not None and before.type == "heading_open" and token.children is not None:
                token.children.insert(0, Token("text", "", 0, content=f"{'#' * int(before.tag[1:])} "))


def _keep_visible(token: Token) -> None:
    token.content = escape_control(token.content)  # of a URL that was decoded
    if token.type == "softbreak":
        token.type = "hardbreak"
    elif token.type == "image":
        token.type, token.tag, token.children = "text", "", None
        token.content = f"![{token.content}]({token.attrs.get('src', '')})"


class _Heading(Heading):
    """A heading at the left."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield self.text


class _CodeBlock(CodeBlock):
    """Code inside of something: as it was written, in as many columns as there are left."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield Text(self.text.plain.removesuffix("\n"), overflow="fold")


_EscapedMarkdown.elements = Markdown.elements | {
    "heading_open": _Heading,
    "fence": _CodeBlock,
    "code_block": _CodeBlock,
}
