"""Tools that the provider runs: each is spelt as the dialect of the model asked spells it.

`options` are fields of that dialect and go out as they stand; `type` forces its exact type, such as a newer version. A
provider that has no such tool is told nothing of it, and the reply's `losses` say so.
"""

from __future__ import annotations

from typing import Any

from tenuto.core.request import ServerTool

__all__ = ["code_execution", "web_fetch", "web_search"]


def web_search(*, type: str = "", **options: Any) -> ServerTool:
    """Let the model search the web."""
    return ServerTool("web_search", type, options)


def web_fetch(*, type: str = "", **options: Any) -> ServerTool:
    """Let the model read pages of the web."""
    return ServerTool("web_fetch", type, options)


def code_execution(*, type: str = "", **options: Any) -> ServerTool:
    """Let the model run code on the provider's machines."""
    return ServerTool("code_execution", type, options)
