"""The command uses the public API of the library: what it needs, other programs may need too."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

CLI = Path(__file__).parents[2] / "src" / "tenuto" / "cli"
MODULES = sorted(CLI.rglob("*.py"))


def private_attributes(tree: ast.AST) -> list[str]:
    """Return the private attributes that are read from other objects than `self`, `cls` and classes of the module."""
    own = {node.name for node in ast.walk(tree) if isinstance(node, ast.ClassDef)}
    return [
        ast.unparse(node)
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and node.attr.startswith("_")
        and not node.attr.startswith("__")
        and node.attr not in ("_asdict", "_replace")  # of named tuples
        and not (isinstance(node.value, ast.Name) and node.value.id in {"self", "cls", "os", *own})
    ]


def test_private_attribute_of_another_object_is_found():
    tree = ast.parse("def f(self, session): return self._own, session._log.head, pair._replace(a=1)")

    assert private_attributes(tree) == ["session._log"]


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.relative_to(CLI).as_posix())
def test_command_reads_no_private_attribute(path):
    assert private_attributes(ast.parse(path.read_text("utf-8"))) == []
