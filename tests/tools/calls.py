"""Tool calls as a model makes them, and their outcomes."""

from __future__ import annotations

import asyncio
import json

from tenuto.core.messages import ToolCallView
from tenuto.tools import Outcome, Toolbox, ToolContext


def call(name, /, **arguments):
    return ToolCallView("call_1", name, json.dumps(arguments))


async def prepare_and_run(box, tool_call, **context):
    """Prepare and run a call; return the outcome also if the call cannot run."""
    prepared = box.prepare(tool_call)
    if isinstance(prepared, Outcome):
        return prepared
    return await box.run(prepared, ToolContext(tool_call, **context))


def run(tools, tool_call, **context):
    return asyncio.run(prepare_and_run(Toolbox(tools), tool_call, **context))


def answer_of(tools, name, /, **arguments):
    """Return the result of a call as text."""
    return run(tools, call(name, **arguments)).result.content
