"""One file has all texts that users of the command and models read: `texts.txt`.

A changed text is one reviewed line there. `python tests/cli/test_texts.py` writes the file again.
"""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click

from tenuto.cli.main import _tenuto
from tenuto.tools.builtin import BUILTIN, builtin_tools
from tenuto.tools.toolbox import Toolbox

SNAPSHOT = Path(__file__).with_name("texts.txt")
SOURCE = Path(__file__).parents[2] / "src" / "tenuto"
PACKAGES = ("cli", "tools")
"""The packages whose messages are listed."""
WIDTH = 100


def commands(command: click.Command, name: str, parent: click.Context | None = None) -> Iterator[click.Context]:
    """Yield the context of a command and of its subcommands, with the settings that `main` gives them."""
    settings = {"max_content_width": WIDTH, "terminal_width": WIDTH, **command.context_settings}
    context = click.Context(command, parent, name, **settings)
    yield context
    if isinstance(command, click.Group):
        for inner_name in command.list_commands(context):
            inner = command.get_command(context, inner_name)
            if inner is not None:
                yield from commands(inner, inner_name, context)


def help_pages() -> Iterator[str]:
    for context in commands(_tenuto, "tenuto"):
        yield f"## {context.command_path} --help\n\n{context.get_help()}\n"


def tool_texts() -> Iterator[str]:
    for definition in Toolbox(builtin_tools(".", names=BUILTIN).values()).definitions():
        yield f"## tool {definition.name}\n\n{definition.description}\n"
        for name, field in definition.parameters["properties"].items():
            yield f"  {name}: {field.get('description', '')}\n"


def text_of(node: ast.AST) -> str:
    """Return a string with its replaced parts in braces; empty for another node."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        parts = (
            part.value if isinstance(part, ast.Constant) else f"{{{ast.unparse(part.value)}}}"
            for part in node.values
            if isinstance(part, ast.Constant | ast.FormattedValue)
        )
        return "".join(map(str, parts))
    return ""


def messages(path: Path) -> Iterator[str]:
    """Yield the strings of two words or more in a module, without docstrings and help texts."""
    tree = ast.parse(path.read_text("utf-8"))
    skipped: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr | ast.JoinedStr):  # docstrings; parts of a text that is listed as a whole
            skipped |= {id(inner) for inner in ast.iter_child_nodes(node)}
        if isinstance(node, ast.keyword) and node.arg == "help":
            skipped |= {id(inner) for inner in ast.walk(node)}
    for node in ast.walk(tree):
        text = text_of(node) if id(node) not in skipped else ""
        if " " in text.strip() and not text.startswith("Usage:"):
            yield text


def snapshot() -> str:
    """Return the content of the file."""
    parts = ["# Written by `python tests/cli/test_texts.py`: the texts that users and models read.\n"]
    parts += [*help_pages(), *tool_texts()]
    for package in PACKAGES:
        for path in sorted((SOURCE / package).rglob("*.py")):
            lines = "".join(f"{text!r}\n" for text in messages(path))
            if lines:
                parts.append(f"## {path.relative_to(SOURCE).as_posix()}\n\n{lines}")
    return "\n".join(parts)


def test_texts_equal_the_snapshot():
    """In a process of its own: click keeps the help option of a command's first settings."""
    environment = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
    written = subprocess.run(
        [sys.executable, __file__, "--print"], env=environment, capture_output=True, encoding="utf-8", check=True
    ).stdout

    assert written.split() == SNAPSHOT.read_text("utf-8").split()  # versions of click break lines differently


if __name__ == "__main__":
    if sys.argv[1:] == ["--print"]:
        sys.stdout.reconfigure(encoding="utf-8")
        sys.stdout.write(snapshot())
    else:
        SNAPSHOT.write_text(snapshot(), "utf-8")
