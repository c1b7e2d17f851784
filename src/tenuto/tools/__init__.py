"""Tools: functions that a model may call, tools that a provider runs itself, and the dispatcher that runs calls."""

from __future__ import annotations

from tenuto.tools.builtin import BUILTIN, builtin_tools
from tenuto.tools.decorator import Effect, FunctionTool, Tool, tool
from tenuto.tools.execution import Outcome, ToolContext
from tenuto.tools.server_tools import code_execution, web_fetch, web_search
from tenuto.tools.toolbox import PreparedCall, Toolbox, ToolDispatcher, ToolSource, is_tool_source

__all__ = [
    "BUILTIN",
    "Effect",
    "FunctionTool",
    "Outcome",
    "PreparedCall",
    "Tool",
    "ToolContext",
    "ToolDispatcher",
    "ToolSource",
    "Toolbox",
    "builtin_tools",
    "code_execution",
    "is_tool_source",
    "tool",
    "web_fetch",
    "web_search",
]
