"""`tenuto tools`: what a model may be given, and what it is told of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from tenuto.core.request import ServerTool, ToolDefinition
    from tenuto.tools.toolbox import Toolbox

__all__ = ["command"]

_EXAMPLES = """\b
Examples:
  tenuto tools
  tenuto tools shell             # what a model is told of it, whole
  tenuto tools my_tools:weather  # one of your own
  tenuto tools --json | jq '.[].parameters'
"""
_HEADS = ("TOOL", "APPROVAL", "IF CUT OFF", "WHAT IT DOES")
_AGAIN = {"pure": "run again", "idempotent": "run again", "keyed": "run again, same key", "once": "not run again"}


@click.command("tools", epilog=_EXAMPLES)
@click.argument("names", metavar="[NAME]...", nargs=-1)
@click.option("--json", "as_json", is_flag=True, help="A JSON array, with the schemas of the parameters.")
def command(names: tuple[str, ...], as_json: bool) -> int:
    """List the tools that tenuto run -T NAME gives to a model: whether a call needs your word first, and whether one that
    was cut off, by kill -9 say, is run again when the session goes on.

    With NAME, a builtin one or your own as MODULE:FUNCTION, print the whole definition as the model gets it. Your own is
    found in the current folder, or where Python finds modules; it is imported, and not called.
    """
    import sys
    from contextlib import redirect_stdout

    from tenuto.cli.belt import tools_of
    from tenuto.cli.columns import columns
    from tenuto.cli.screen import write_document, write_text
    from tenuto.core import jsonio
    from tenuto.tools.builtin import BUILTIN
    from tenuto.tools.toolbox import Toolbox

    with redirect_stdout(sys.stderr):  # what is loaded may print
        box = Toolbox(tools_of(names or BUILTIN, "."))
    told = [_fields(box, definition) for definition in box.definitions()]
    if as_json:
        write_document(jsonio.encode(told))
    elif names:
        write_text("\n".join(map(_page, told)), escape=True)
    else:
        write_text(columns([_HEADS, *map(_cells, told)]), escape=True)
    return 0


def _fields(box: Toolbox, definition: ToolDefinition | ServerTool) -> dict[str, Any]:
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


def _approval(told: dict[str, Any]) -> str:
    asked = told["approval"]
    return "depends on the call" if asked == "depends" else "asked for" if asked else "not needed"


def _again(told: dict[str, Any]) -> str:
    return _AGAIN.get(told["effect"] or "", "-")


def _cells(told: dict[str, Any]) -> tuple[str, ...]:
    from tenuto.cli.escaping import one_line

    first = told["description"].partition("\n\n")[0]
    return told["name"], _approval(told), _again(told), one_line(first, 100)


def _page(told: dict[str, Any]) -> str:
    import json

    lines = [told["name"], "", *(f"  {line}".rstrip() for line in told["description"].splitlines()), ""]
    timeout = f"; {told['timeout']:g} s at most" if told["timeout"] else ""
    lines.append(f"  approval: {_approval(told)}; if it is cut off: {_again(told)}{timeout}")
    if told["parameters"] is not None:
        schema = json.dumps(told["parameters"], indent=2, ensure_ascii=False)
        lines += ["", "  parameters:", *(f"    {line}" for line in schema.splitlines())]
    return "\n".join(lines) + "\n"
