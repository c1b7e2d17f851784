"""Calls as a model makes them, and what comes of them."""

from __future__ import annotations

import asyncio
import json

from tenuto.core.messages import ToolCallView
from tenuto.tools import Outcome, Toolbox, ToolContext


def call(name, /, **arguments):
    return ToolCallView("call_1", name, json.dumps(arguments))


async def ran(box, made, **context):
    """Prepare and run a call; a call that cannot run has an outcome, too."""
    prepared = box.prepare(made)
    if isinstance(prepared, Outcome):
        return prepared
    return await box.run(prepared, ToolContext(made, **context))


def run(tools, made, **context):
    return asyncio.run(ran(Toolbox(tools), made, **context))


def said(tools, name, /, **arguments):
    """What a call answers, as text."""
    return run(tools, call(name, **arguments)).result.content
