"""Tools: functions that a model may call, and tools that a provider runs itself."""

from __future__ import annotations

from tenuto.tools.function import Tool, tool
from tenuto.tools.served import code_execution, web_fetch, web_search

__all__ = ["Tool", "code_execution", "tool", "web_fetch", "web_search"]
