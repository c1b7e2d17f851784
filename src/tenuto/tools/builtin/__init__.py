"""Tools for files in one directory and for shell commands. The `tenuto` command offers them on request."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Self, TypeAlias

from tenuto.tools.builtin.confined_dir import ConfinedDir
from tenuto.tools.builtin.files import Files
from tenuto.tools.builtin.search import FileSearch
from tenuto.tools.builtin.shell import Shell, command_environment
from tenuto.tools.decorator import FunctionTool

__all__ = ["BUILTIN", "builtin_tools"]

BUILTIN = ("read_file", "write_file", "edit_file", "list_files", "search_files", "shell")
"""The names of the tools."""

_FunctionFactory: TypeAlias = Callable[[ConfinedDir], Callable[..., Any]]


def builtin_tools(
    root: str | os.PathLike[str],
    *,
    names: Iterable[str] = BUILTIN,
    shell_timeout: float = 120.0,
    env: Mapping[str, str] | None = None,
    pass_env: Iterable[str] = (),
    approval: bool = True,
) -> dict[str, FunctionTool[..., Any]]:
    """Return tools for one directory by name.

    `root`: files outside it cannot be reached by any path or link.
    `names`: the tools to return.
    `shell_timeout`: limit in seconds for a command.
    `env`: the environment from which commands get their variables, as in `os.environ`; only those of an allow-list
    (`PATH`, `HOME`, `LANG`, ...) and of `pass_env` are passed on. Without it, commands see only a `PATH`.
    `pass_env`: names, and globs as in `CARGO_*`, of more variables that commands may see.
    `approval`: whether `shell` and the tools that write need approval.

    Raise `ValueError` for a name that is not in `BUILTIN`, `NotADirectoryError` if `root` is not a directory.
    """
    wanted = tuple(names)
    unknown = [name for name in wanted if name not in BUILTIN]
    if unknown:
        raise ValueError(f"unknown builtin tool {unknown[0]!r}: choose from {', '.join(BUILTIN)}")
    if not shell_timeout > 0:
        raise ValueError(f"shell_timeout={shell_timeout!r} is not a positive number of seconds")
    variables = command_environment(env or {}, pass_env)
    rows: dict[str, tuple[_FunctionFactory, dict[str, Any]]] = {
        "read_file": (lambda root: Files(root).read_file, {"effect": "pure", "timeout": 60}),
        "write_file": (
            lambda root: Files(root).write_file,
            {"effect": "idempotent", "timeout": 60, "approval": approval},
        ),
        "edit_file": (lambda root: Files(root).edit_file, {"effect": "once", "timeout": 60, "approval": approval}),
        "list_files": (lambda root: Files(root).list_files, {"effect": "pure", "timeout": 60}),
        "search_files": (
            lambda root: FileSearch(root).search_files,
            {"effect": "pure", "timeout": 60, "max_output": 100_000},
        ),
        "shell": (lambda root: Shell(root, variables, shell_timeout).shell, {"effect": "once", "approval": approval}),
    }
    directory = ConfinedDir(root)
    return {name: _BuiltinTool(directory, *rows[name]) for name in BUILTIN if name in wanted}


class _BuiltinTool(FunctionTool[..., Any]):
    """A tool whose function depends on the directory."""

    def __init__(self, directory: ConfinedDir, make_function: _FunctionFactory, options: dict[str, Any]) -> None:
        super().__init__(make_function(directory), root=str(directory.path), **options)
        self._make_function = make_function

    def at_root(self, root: str) -> Self:
        """Return the tool for another directory. Raise `NotADirectoryError` if it does not exist."""
        other = super().at_root(root)
        if other is not self:
            other._bind(self._make_function(ConfinedDir(root)))
        return other
