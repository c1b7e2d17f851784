"""Render a block of Markdown as lines for a terminal, with rich.

The lines contain all letters and digits of the block: if rendering would drop some (Markdown ignores parts, a narrow table
has no room), the block is shown as written. URLs are shown; HTML is not interpreted.
"""

from __future__ import annotations

import functools
import io
import re
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise

from markdown_it import MarkdownIt
from markdown_it.token import Token
from rich.color import ColorSystem
from rich.console import Console, ConsoleOptions, RenderResult
from rich.markdown import CodeBlock, Heading, Markdown
from rich.segment import Segment
from rich.style import Style
from rich.syntax import Syntax
from rich.text import Text
from rich.theme import Theme

from tenuto.cli.terminal.text import escape_control, wrap

FENCE = re.compile(r" {0,3}(`{3,}(?=[^`]*$)|~{3,})")
"""The first line of a code block."""
_BLOCKS = MarkdownIt("commonmark").enable(["strikethrough", "table"])
_BLOCKS.disable(["reference", "html_block", "html_inline", "entity"])
_BLOCKS.core.ruler.disable(["inline", "text_join"])
_ONE_LINE = ("hr",)
_ENDED_BY_BLANK = ("paragraph_open", "heading_open", "table_open", "blockquote_open")


class BlockSplitter:
    """Splits streamed Markdown into top-level blocks.

    The last block is complete only if no later line can belong to it.
    """

    def __init__(self) -> None:
        self._lines: list[str] = []
        """The complete lines of the last block."""
        self._line: list[str] = []
        """The pieces of the incomplete line."""
        self._kind = ""
        self._fence = ""
        """The fence of an open code block: no line can end it that does not contain the fence."""

    def feed(self, piece: str) -> list[str]:
        """Return the blocks that are complete now."""
        head, newline, rest = piece.rpartition("\n")
        if not newline:
            self._line.append(piece)
            return []
        new = [f"{line}\n" for line in "".join([*self._line, head]).split("\n")]
        self._line = [rest]
        self._lines += new
        if self._fence and not any(self._fence in line for line in new):
            return []
        text = "".join(self._lines).replace("\r\n", "\n").replace("\r", " ")
        tokens = [token for token in _BLOCKS.parse(text) if token.level == 0 and token.map]
        if not tokens:
            return []
        last = tokens[-1]
        start, end = last.map or (0, 0)
        closing = self._lines[end - 1].strip() if end - 1 > start else ""
        is_closed = last.type == "fence" and closing.startswith(last.markup) and not closing.strip(last.markup[:1])
        self._kind = last.type
        self._fence = last.markup if last.type == "fence" and not is_closed else ""
        bounds = [0, *((token.map or [0])[0] for token in tokens[1:])]
        blocks = ["".join(self._lines[begin:stop]) for begin, stop in pairwise(bounds)]
        self._lines = self._lines[bounds[-1] :]
        if (
            is_closed
            or last.type in _ONE_LINE
            or (last.type in _ENDED_BY_BLANK and end < bounds[-1] + len(self._lines))
        ):
            blocks.append("".join(self._lines))
            self._lines, self._kind = [], ""
        return blocks

    @property
    def rest(self) -> str:
        """The text after the blocks that are complete."""
        return "".join([*self._lines, *self._line])

    def end_of_rest(self, rows: int, columns: int) -> str:
        """Return the end of the rest that fits on the screen, after the first lines of code or a table.

        The effort does not grow with the rest.
        """
        heads = {"fence": 1, "table_open": 2}.get(self._kind, 0)
        first = next((at for at, line in enumerate(self._lines) if line.strip()), 0)
        body = self._lines[first + heads :]
        parts, room = ["".join(self._line[-rows * columns :])[-rows * columns :]], rows * columns
        for line in reversed(body[-rows:]):
            room -= len(parts[-1])
            if room <= 0:
                break
            parts.append(line[-room:])
        head = [line[: 2 * columns] for line in self._lines[first : first + heads]]
        return "".join([*head, *reversed(parts)])


_COLORS = re.compile(r"\x1b\[[0-9;]*m")
_MAX_LENGTH = 60_000
"""Longer blocks are shown as written: rendering would be slow."""
_CODE = "ansi_dark"
"""Colors of the terminal's own."""
_THEME = Theme(
    {
        "markdown.code": "cyan",
        "markdown.code_block": "none",
        "markdown.block_quote": "dim",
        "markdown.h1": "bold underline",
        "markdown.h2": "bold",
        "markdown.h3": "bold",
        "markdown.h4": "bold dim",
        "markdown.h5": "bold dim",
        "markdown.h6": "dim",
        "markdown.hr": "dim",
        "markdown.item.bullet": "dim",
        "markdown.item.number": "dim",
        "markdown.link": "bold",
        "markdown.link_url": "underline",
        "markdown.table.border": "dim",
        "markdown.table.header": "bold",
    }
)


def render_block(block: str, columns: int, *, color: bool) -> list[str]:
    """Return the lines of a block; [] if it is empty. Lines of code may be longer than `columns`.

    The block must be escaped; the only control sequences of the result are colors.
    """
    text = block.strip("\n")
    if not text.strip():
        return []
    if len(text) > _MAX_LENGTH:
        return list(wrap(text, columns))
    if FENCE.match(text.partition("\n")[0]):
        return _code(text, color=color)
    lines = _render(_MarkdownBlock(text, marks=not color), columns, color=color)
    full = [at for at, line in enumerate(lines) if line.strip()]
    lines = lines[full[0] : full[-1] + 1] if full else []
    return lines if _keeps_all_characters(lines, text) else list(wrap(text, columns))


def _keeps_all_characters(lines: list[str], text: str) -> bool:
    """Whether every letter and digit is still there, so often as it was written."""
    there = Counter(filter(str.isalnum, _COLORS.sub("", "".join(lines))))
    return Counter(filter(str.isalnum, text)) <= there


def _code(text: str, *, color: bool) -> list[str]:
    """Code as it was written, between its fences: it can be copied."""
    first, *lines = text.split("\n")
    fence = FENCE.match(first)
    assert fence is not None
    last = []
    if lines and lines[-1].strip() and not lines[-1].strip().strip(fence[1][0]):
        last = [lines.pop()]
    if not color:
        return [first, *lines, *last]
    dim = Style(dim=True)
    name = first[fence.end() :].split(None, 1)[:1]
    body = _highlight("\n".join(lines), name[0]) if name and lines else lines
    return [_style_text(first, dim), *body, *(_style_text(line, dim) for line in last)]


def _highlight(code: str, language: str) -> list[str]:
    """Return lines of code with colors, or unchanged if highlighting would change their text."""
    painted = Syntax(code, language, theme=_CODE, background_color="default").highlight(code)
    plain = code.split("\n")
    if painted.plain.removesuffix("\n") != code:
        return plain
    painted.no_wrap, painted.overflow = True, "ignore"
    lines = _render(painted, len(code) + 1, color=True)[: len(plain)]
    return lines if len(lines) == len(plain) else plain


# --- rich, held on a short line ---------------------------------------------------------------------------------------


class _MarkdownBlock(Markdown):
    """A block as rich shows it; a line that was ended stays ended, and headings stand where they were written."""

    def __init__(self, text: str, *, marks: bool) -> None:
        super().__init__("", hyperlinks=False, code_theme=_CODE)
        self.marks = marks
        self.parsed = _parser().parse(text)
        for token in self.parsed:
            for child in token.children or ():
                _keep_visible(child)


def _keep_visible(token: Token) -> None:
    if token.type == "softbreak":
        token.type = "hardbreak"
    elif token.type == "image":
        token.type, token.tag = "text", ""
        token.content = f"![{token.content}]({token.attrs.get('src', '')})"
        token.children = None


@functools.cache
def _parser() -> MarkdownIt:
    """Without what makes something vanish: HTML, definitions of links, names of signs."""
    parser = MarkdownIt("commonmark").enable(["strikethrough", "table"])
    return parser.disable(["reference", "html_block", "html_inline", "entity"])


class _Heading(Heading):
    """A heading: bold, and at the left; with its marks where there is nothing bold."""

    def __init__(self, tag: str, *, marks: bool = False) -> None:
        super().__init__(tag)
        self._marks = f"{'#' * int(tag[1:])} " if marks else ""

    @classmethod
    def create(cls, markdown: Markdown, token: Token) -> _Heading:
        return cls(token.tag, marks=isinstance(markdown, _MarkdownBlock) and markdown.marks)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield Text(self._marks) + self.text


class _CodeBlock(CodeBlock):
    """Code inside of something: as it was written, in as many columns as there are left."""

    def __init__(self, fence: str, info: str) -> None:
        super().__init__("", "")
        self._fence, self._info = fence, info

    @classmethod
    def create(cls, markdown: Markdown, token: Token) -> _CodeBlock:
        del markdown
        return cls(token.markup, token.info) if token.type == "fence" else cls("", "")

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        code = self.text.plain.removesuffix("\n")
        if self._fence:
            code = f"{self._fence}{self._info}\n{code}\n{self._fence}"
        yield Text(code, overflow="fold")


_MarkdownBlock.elements = Markdown.elements | {"heading_open": _Heading, "fence": _CodeBlock, "code_block": _CodeBlock}


@functools.lru_cache(maxsize=4)
def _console(columns: int) -> Console:
    return Console(
        file=io.StringIO(), width=columns, height=100, force_terminal=True, legacy_windows=False,
        color_system="standard", theme=_THEME, markup=False, highlight=False, emoji=False,
    )  # fmt: skip


def _render(what: Markdown | Text, columns: int, *, color: bool) -> list[str]:
    console = _console(columns)
    return ["".join(_segment_text(line, color=color)) for line in Segment.split_lines(console.render(what))]


def _segment_text(line: list[Segment], *, color: bool) -> Iterator[str]:
    """What a line consists of, without the spaces it was filled up with. A last look is had that nothing slips through."""
    segments = [segment for segment in line if not segment.control]
    while segments and not segments[-1].text.strip():
        segments.pop()
    for at, (text, style, _) in enumerate(segments):
        clean = escape_control(text.rstrip() if at == len(segments) - 1 else text)
        yield _style_text(clean, style) if color and style else clean


def _style_text(text: str, style: Style) -> str:
    return style.render(text, color_system=ColorSystem.STANDARD)
