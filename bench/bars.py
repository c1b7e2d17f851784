"""Draw bar charts as SVG, in colors that are readable on white and on black."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Literal, NamedTuple

COLORS = {"tenuto": "#d1660a", "other": "#6f7d8c", "minimal": "#2f8f6b", "text": "#737c86"}
WIDTH, LABEL, BAR_AREA = 760, 210, 400
LINE, BAR, GAP, TOP = 20, 13, 26, 34
MIN_WIDTH = 1.5
"""The narrowest visible bar, in pixels."""
TITLE = "CPU per stream event, as a multiple of tenuto (less is better)"
LEGEND = {"tenuto": "tenuto", "other": "other libraries", "minimal": "aiohttp without a library"}


class Bar(NamedTuple):
    """One bar of a panel."""

    name: str
    length: float
    label: str
    """The text after the bar."""
    kind: Literal["tenuto", "other", "minimal"]


class Panel(NamedTuple):
    """Bars with a common scale, under a title."""

    title: str
    bars: Sequence[Bar]


def _text(x: float, y: float, text: str, attributes: str = "") -> str:
    return f'<text x="{x:g}" y="{y:g}"{attributes}>{escape(text)}</text>'


def _draw_panel(panel: Panel, top: float) -> list[str]:
    scale = BAR_AREA / max(bar.length for bar in panel.bars)
    parts = [_text(0, top + LINE - 6, panel.title, ' font-weight="bold"')]
    for at, bar in enumerate(panel.bars, 1):
        y = top + at * LINE
        width = max(MIN_WIDTH, bar.length * scale)
        bold = ' font-weight="bold"' if bar.kind == "tenuto" else ""
        parts += [
            _text(LABEL - 8, y + BAR - 2, bar.name, f' text-anchor="end"{bold}'),
            f'<rect x="{LABEL}" y="{y:g}" width="{width:.1f}" height="{BAR}" fill="{COLORS[bar.kind]}"/>',
            _text(LABEL + width + 6, y + BAR - 2, bar.label, bold),
        ]
    return parts


def draw_chart(panels: Sequence[Panel]) -> str:
    shown = {bar.kind for panel in panels for bar in panel.bars}
    parts, x = [_text(0, 14, TITLE, ' font-weight="bold"')], 0
    for kind, label in LEGEND.items():
        if kind in shown:
            parts += [
                f'<rect x="{x}" y="{TOP - 9}" width="10" height="10" fill="{COLORS[kind]}"/>',
                _text(x + 15, TOP, label),
            ]
            x += 40 + 7 * len(label)
    top = TOP + 12
    for panel in panels:
        parts += _draw_panel(panel, top)
        top += LINE * (len(panel.bars) + 1) + GAP
    height = top - GAP + 10
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" viewBox="-10 -6 {WIDTH + 20} {height + 12}" '
        f'font-family="system-ui, sans-serif" font-size="12" fill="{COLORS["text"]}" role="img">'
    )
    return "\n".join([head, f"<title>{escape(TITLE)}</title>", *parts, "</svg>"]) + "\n"
