"""Bars, drawn as SVG by hand: no library, and colours that can be read on white and on black."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Literal, NamedTuple

COLOURS = {"ours": "#d1660a", "other": "#6f7d8c", "floor": "#2f8f6b", "text": "#737c86"}
WIDTH, LABEL, ROOM = 760, 210, 400
LINE, BAR, GAP, TOP = 20, 13, 26, 34
LEAST = 1.5
"""So many pixels are seen as a bar."""
TITLE = "CPU for an event of a stream, in multiples of tenuto's (less is better)"
KEYS = {"ours": "tenuto", "other": "other libraries", "floor": "aiohttp and a loop, no library"}


class Bar(NamedTuple):
    """A name, how long its bar is, what stands behind it, and whose it is."""

    name: str
    length: float
    label: str
    kind: Literal["ours", "other", "floor"]


class Panel(NamedTuple):
    """Bars on one scale, under a title."""

    title: str
    bars: Sequence[Bar]


def _text(x: float, y: float, words: str, more: str = "") -> str:
    return f'<text x="{x:g}" y="{y:g}"{more}>{escape(words)}</text>'


def _panel(panel: Panel, top: float) -> list[str]:
    scale = ROOM / max(bar.length for bar in panel.bars)
    found = [_text(0, top + LINE - 6, panel.title, ' font-weight="bold"')]
    for at, bar in enumerate(panel.bars, 1):
        y = top + at * LINE
        width = max(LEAST, bar.length * scale)
        bold = ' font-weight="bold"' if bar.kind == "ours" else ""
        found += [
            _text(LABEL - 8, y + BAR - 2, bar.name, f' text-anchor="end"{bold}'),
            f'<rect x="{LABEL}" y="{y:g}" width="{width:.1f}" height="{BAR}" fill="{COLOURS[bar.kind]}"/>',
            _text(LABEL + width + 6, y + BAR - 2, bar.label, bold),
        ]
    return found


def drawn(panels: Sequence[Panel]) -> str:
    """The whole picture."""
    shown = {bar.kind for panel in panels for bar in panel.bars}
    parts, x = [_text(0, 14, TITLE, ' font-weight="bold"')], 0
    for kind, words in KEYS.items():
        if kind in shown:
            parts += [
                f'<rect x="{x}" y="{TOP - 9}" width="10" height="10" fill="{COLOURS[kind]}"/>',
                _text(x + 15, TOP, words),
            ]
            x += 40 + 7 * len(words)
    top = TOP + 12
    for panel in panels:
        parts += _panel(panel, top)
        top += LINE * (len(panel.bars) + 1) + GAP
    height = top - GAP + 10
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" viewBox="-10 -6 {WIDTH + 20} {height + 12}" '
        f'font-family="system-ui, sans-serif" font-size="12" fill="{COLOURS["text"]}" role="img">'
    )
    return "\n".join([head, f"<title>{escape(TITLE)}</title>", *parts, "</svg>"]) + "\n"
