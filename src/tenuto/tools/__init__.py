"""Tools: functions that a model may call, tools that a provider runs itself, and the dispatcher that runs calls."""

from __future__ import annotations

from tenuto.tools.builtin import BUILTIN, builtin_tools
from tenuto.tools.context import ToolContext
from tenuto.tools.function import Effect, Tool, tool
from tenuto.tools.outcome import Outcome, Refused
from tenuto.tools.served import code_execution, web_fetch, web_search
from tenuto.tools.toolbox import Prepared, Toolbox, ToolDispatcher

__all__ = [
    "BUILTIN",
    "Effect",
    "Outcome",
    "Prepared",
    "Refused",
    "Tool",
    "ToolContext",
    "ToolDispatcher",
    "Toolbox",
    "builtin_tools",
    "code_execution",
    "tool",
    "web_fetch",
    "web_search",
]
