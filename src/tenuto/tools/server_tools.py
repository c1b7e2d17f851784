"""Tools that the provider runs. Each dialect writes its own type for them.

`options` are fields of the dialect and are sent unchanged; `type` sets the exact type, such as a newer version. If a
provider has no such tool, it is omitted, and the reply has a `Loss`.
"""

from __future__ import annotations

from typing import Any

from tenuto.core.request import ServerTool


def web_search(*, type: str = "", **options: Any) -> ServerTool:
    """Let the model search the web."""
    return ServerTool("web_search", type, options)


def web_fetch(*, type: str = "", **options: Any) -> ServerTool:
    """Let the model read web pages."""
    return ServerTool("web_fetch", type, options)


def code_execution(*, type: str = "", **options: Any) -> ServerTool:
    """Let the model run code on the provider's machines."""
    return ServerTool("code_execution", type, options)
