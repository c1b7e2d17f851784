"""Tools: functions that a model may call, tools that a provider runs itself, and the dispatcher that runs calls."""

from __future__ import annotations

from tenuto.tools.builtin import BUILTIN as BUILTIN
from tenuto.tools.builtin import builtin_tools as builtin_tools
from tenuto.tools.decorator import Effect as Effect
from tenuto.tools.decorator import FunctionTool as FunctionTool
from tenuto.tools.decorator import Tool as Tool
from tenuto.tools.decorator import tool as tool
from tenuto.tools.execution import Outcome as Outcome
from tenuto.tools.execution import ToolContext as ToolContext
from tenuto.tools.toolbox import PreparedCall as PreparedCall
from tenuto.tools.toolbox import Toolbox as Toolbox
from tenuto.tools.toolbox import ToolDispatcher as ToolDispatcher
from tenuto.tools.toolbox import ToolSource as ToolSource
from tenuto.tools.toolbox import code_execution as code_execution
from tenuto.tools.toolbox import is_tool_source as is_tool_source
from tenuto.tools.toolbox import web_fetch as web_fetch
from tenuto.tools.toolbox import web_search as web_search
