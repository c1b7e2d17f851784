"""The providers that can be played."""

from __future__ import annotations

from tenuto.core.target import Dialect
from tenuto.sim.asked import Style

__all__ = ["STYLES", "find"]

STYLES: tuple[Style, ...] = (
    Style(name="anthropic", dialect="anthropic-messages", envelope="anthropic", models="claude-.*"),
    Style(
        name="openai", dialect="openai-responses", envelope="openai", models=r"(?:gpt-|o\d|codex-|chatgpt-|computer-).*"
    ),
    Style(name="gemini", dialect="gemini", envelope="gemini", models="(?:gemini|gemma)-.*"),
    Style(name="chat", dialect="openai-chat", envelope="openai", reasoning="reasoning_content"),
)
_BY_NAME = {(style.name, style.dialect): style for style in STYLES}
_HOME: dict[Dialect, str] = {
    "anthropic-messages": "anthropic",
    "openai-responses": "openai",
    "openai-chat": "chat",
    "gemini": "gemini",
}


def find(named: str, dialect: Dialect) -> tuple[Style, str]:
    """Find whose part a model's name asks for, at an endpoint of a dialect; and the real model, empty if none is named.

    `deepseek` and `deepseek/deepseek-v4-pro` name a style. Any other name is a model of the style at home here.
    """
    first, _, rest = named.removeprefix("models/").partition("/")
    style = _BY_NAME.get((first, dialect))
    return (style, rest) if style else (_BY_NAME[_HOME[dialect], dialect], named.removeprefix("models/"))
