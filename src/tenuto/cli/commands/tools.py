"""`tenuto tools`: list the tools a model can use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from tenuto.cli.complete import complete_tool
from tenuto.cli.options import json_option
from tenuto.cli.terminal.output import format_table, print_json, print_text
from tenuto.cli.terminal.text import one_line

if TYPE_CHECKING:
    from tenuto.core.request import ServerTool, ToolDefinition
    from tenuto.tools.toolbox import Toolbox


_EXAMPLES = """\b
Examples:
  tenuto tools
  tenuto tools shell             # the full definition
  tenuto tools my_tools:weather  # your own tool
  tenuto tools --json | jq '.[].parameters'
"""
_HEADS = ("TOOL", "NEEDS APPROVAL", "RETRY AFTER CRASH", "DESCRIPTION")
_RETRIES = {"pure": "yes", "idempotent": "yes", "keyed": "yes, same key", "once": "no"}


@click.command("tools", epilog=_EXAMPLES)
@click.argument("names", metavar="[NAME]...", nargs=-1, shell_complete=complete_tool)
@json_option
def command(names: tuple[str, ...], as_json: bool) -> int:
    """List the tools a model can use (tenuto run -T NAME): whether a call needs approval, and whether it is retried after a
    crash.

    With NAME, a built-in tool or your own as MODULE:FUNCTION, print the definition that the model gets. Your own module is
    imported from the current directory or Python's path; the tool is not called.
    """
    import sys
    from contextlib import redirect_stdout

    from tenuto.cli.session.tools import load_tools
    from tenuto.core import jsonio
    from tenuto.tools.builtin import BUILTIN
    from tenuto.tools.toolbox import Toolbox

    with redirect_stdout(sys.stderr):  # user modules may print
        box = Toolbox(load_tools(names or BUILTIN, "."))
    told = [_tool_fields(box, definition) for definition in box.definitions()]
    if as_json:
        print_json(jsonio.encode(told))
    elif names:
        print_text("\n".join(map(_format_definition, told)), escape=True)
    else:
        print_text(format_table([_HEADS, *map(_row, told)]), escape=True)
    return 0


def _tool_fields(box: Toolbox, definition: ToolDefinition | ServerTool) -> dict[str, Any]:
    """What is known of a tool, by names."""
    from tenuto.core.request import ServerTool

    if isinstance(definition, ServerTool):
        return {
            "name": definition.kind,
            "description": "a tool that the provider runs",
            "effect": None,
            "approval": False,
            "timeout": None,
            "parameters": None,
        }
    tool = box.get(definition.name)
    assert tool is not None
    return {
        "name": definition.name,
        "description": definition.description,
        "effect": tool.effect,
        "approval": tool.approval if isinstance(tool.approval, bool) else "depends",
        "timeout": tool.timeout,
        "parameters": definition.parameters,
    }


def _format_approval(told: dict[str, Any]) -> str:
    asked = told["approval"]
    return "depends on the call" if asked == "depends" else "yes" if asked else "no"


def _format_retry(told: dict[str, Any]) -> str:
    return _RETRIES.get(told["effect"] or "", "-")


def _row(told: dict[str, Any]) -> tuple[str, ...]:

    first = told["description"].partition("\n\n")[0]
    return told["name"], _format_approval(told), _format_retry(told), one_line(first, 100)


def _format_definition(told: dict[str, Any]) -> str:
    import json

    lines = [told["name"], "", *(f"  {line}".rstrip() for line in told["description"].splitlines()), ""]
    timeout = f"; timeout {told['timeout']:g} s" if told["timeout"] else ""
    lines.append(f"  needs approval: {_format_approval(told)}; retry after crash: {_format_retry(told)}{timeout}")
    if told["parameters"] is not None:
        schema = json.dumps(told["parameters"], indent=2, ensure_ascii=False)
        lines += ["", "  parameters:", *(f"    {line}" for line in schema.splitlines())]
    return "\n".join(lines) + "\n"
