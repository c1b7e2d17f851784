"""`tenuto tools`: list the tools a model can use."""

from __future__ import annotations

import json
import sys
from contextlib import redirect_stdout
from typing import Any

import click

from tenuto.cli.complete import complete_tool
from tenuto.cli.options import json_option
from tenuto.cli.session.tools import load_tools
from tenuto.cli.terminal.output import print_table, print_text
from tenuto.cli.terminal.text import one_line
from tenuto.core.request import ServerTool, ToolDefinition
from tenuto.tools.builtin import BUILTIN
from tenuto.tools.toolbox import Toolbox

_EXAMPLES = """\b
Examples:
  tenuto tools shell             # the full definition
  tenuto tools my_tools:weather  # your own tool
"""
_HEADS = ("TOOL", "NEEDS APPROVAL", "RETRY AFTER CRASH", "DESCRIPTION")
_RETRIES = {"pure": "yes", "idempotent": "yes", "keyed": "yes, same key", "once": "no"}


@click.command("tools", epilog=_EXAMPLES)
@click.argument("names", metavar="[NAME]...", nargs=-1, shell_complete=complete_tool)
@json_option
def command(names: tuple[str, ...], as_json: bool) -> None:
    """List the tools a model can use (tenuto run -T NAME): whether a call needs approval, and whether it is retried after a
    crash.

    With NAME, a built-in tool or your own as MODULE:FUNCTION, print the definition that the model gets. Your own module is
    imported from the current directory or Python's path; the tool is not called.
    """
    with redirect_stdout(sys.stderr):  # user modules may print
        box = Toolbox(load_tools(names or BUILTIN, "."))
    tools = [_tool_fields(box, definition) for definition in box.definitions()]
    if names and not as_json:
        print_text("\n".join(map(_format_definition, tools)), escape=True)
    else:
        firsts = [one_line(tool["description"].partition("\n\n")[0], 100) for tool in tools]
        rows = [(tool["name"], *_format_rules(tool), first) for tool, first in zip(tools, firsts, strict=True)]
        print_table(_HEADS, rows, tools, as_json=as_json, drop=_HEADS[2:0:-1])


def _tool_fields(box: Toolbox, definition: ToolDefinition | ServerTool) -> dict[str, Any]:
    name = str(getattr(definition, "name", None) or getattr(definition, "kind", ""))
    tool = box.get(name)
    if tool is None or isinstance(definition, ServerTool):
        fields = dict.fromkeys(("effect", "approval", "timeout", "parameters"))
        return {"name": name, "description": "a tool that the provider runs", **fields, "approval": False}
    return {
        "name": name,
        "description": definition.description,
        "effect": tool.effect,
        "approval": tool.approval if isinstance(tool.approval, bool) else "depends",
        "timeout": tool.timeout,
        "parameters": definition.parameters,
    }


def _format_rules(tool: dict[str, Any]) -> tuple[str, str]:
    approval = {True: "yes", False: "no"}.get(tool["approval"], "depends on the call")
    return approval, _RETRIES.get(tool["effect"] or "", "-")


def _format_definition(tool: dict[str, Any]) -> str:
    approval, retry = _format_rules(tool)
    timeout = f"; timeout {tool['timeout']:g} s" if tool["timeout"] else ""
    lines = [tool["name"], "", *(f"  {line}".rstrip() for line in tool["description"].splitlines()), ""]
    lines.append(f"  needs approval: {approval}; retry after crash: {retry}{timeout}")
    if tool["parameters"] is not None:
        schema = json.dumps(tool["parameters"], indent=2, ensure_ascii=False)
        lines += ["", "  parameters:", *(f"    {line}" for line in schema.splitlines())]
    return "\n".join(lines) + "\n"
