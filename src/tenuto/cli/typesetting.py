"""A block of Markdown as lines for a terminal. This loads rich: only what is seen live on a terminal does.

What is set says all that was written: where it would not (Markdown drops some things, and a narrow table has no room), the
block stands as it was written. Addresses are shown, never hidden behind words, and nothing of HTML is obeyed.
"""

from __future__ import annotations

import functools
import io
import re
from collections import Counter
from collections.abc import Iterator

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

from tenuto.cli.cells import wrapped
from tenuto.cli.escaping import shown
from tenuto.cli.markdown import FENCE

__all__ = ["typeset"]

_COLORS = re.compile(r"\x1b\[[0-9;]*m")
_MOST = 60_000
"""A block of more characters is not set: it would take long, and nobody reads it."""
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


def typeset(block: str, columns: int, *, color: bool) -> list[str]:
    """Return a block, in which everything that a terminal might obey is spelt out, as lines with nothing in them to obey
    but colors; none if it is empty. Lines of code may be longer than there are columns.
    """
    text = block.strip("\n")
    if not text.strip():
        return []
    if len(text) > _MOST:
        return list(wrapped(text, columns))
    if FENCE.match(text.partition("\n")[0]):
        return _code(text, color=color)
    lines = _lines(_Page(text, marks=not color), columns, color=color)
    full = [at for at, line in enumerate(lines) if line.strip()]
    lines = lines[full[0] : full[-1] + 1] if full else []
    return lines if _has_all(lines, text) else list(wrapped(text, columns))


def _has_all(lines: list[str], text: str) -> bool:
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
    body = _colored("\n".join(lines), name[0]) if name and lines else lines
    return [_painted(first, dim), *body, *(_painted(line, dim) for line in last)]


def _colored(code: str, language: str) -> list[str]:
    """Lines of code in colors, unless whoever paints them would change them."""
    painted = Syntax(code, language, theme=_CODE, background_color="default").highlight(code)
    plain = code.split("\n")
    if painted.plain.removesuffix("\n") != code:
        return plain
    painted.no_wrap, painted.overflow = True, "ignore"
    lines = _lines(painted, len(code) + 1, color=True)[: len(plain)]
    return lines if len(lines) == len(plain) else plain


# --- rich, held on a short line ---------------------------------------------------------------------------------------


class _Page(Markdown):
    """A block as rich shows it; a line that was ended stays ended, and headings stand where they were written."""

    def __init__(self, text: str, *, marks: bool) -> None:
        super().__init__("", hyperlinks=False, code_theme=_CODE)
        self.marks = marks
        self.parsed = _parser().parse(text)
        for token in self.parsed:
            for child in token.children or ():
                _mend(child)


def _mend(token: Token) -> None:
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
        return cls(token.tag, marks=isinstance(markdown, _Page) and markdown.marks)

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


_Page.elements = Markdown.elements | {"heading_open": _Heading, "fence": _CodeBlock, "code_block": _CodeBlock}


@functools.lru_cache(maxsize=4)
def _console(columns: int) -> Console:
    return Console(
        file=io.StringIO(), width=columns, height=100, force_terminal=True, legacy_windows=False,
        color_system="standard", theme=_THEME, markup=False, highlight=False, emoji=False,
    )  # fmt: skip


def _lines(what: Markdown | Text, columns: int, *, color: bool) -> list[str]:
    console = _console(columns)
    return ["".join(_signs(line, color=color)) for line in Segment.split_lines(console.render(what))]


def _signs(line: list[Segment], *, color: bool) -> Iterator[str]:
    """What a line consists of, without the spaces it was filled up with. A last look is had that nothing slips through."""
    segments = [segment for segment in line if not segment.control]
    while segments and not segments[-1].text.strip():
        segments.pop()
    for at, (text, style, _) in enumerate(segments):
        clean = shown(text.rstrip() if at == len(segments) - 1 else text)
        yield _painted(clean, style) if color and style else clean


def _painted(text: str, style: Style) -> str:
    return style.render(text, color_system=ColorSystem.STANDARD)
