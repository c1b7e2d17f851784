"""Tools for files in one directory and for shell commands. The `tenuto` command offers them on request."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Self

from tenuto.tools.builtin.confined_dir import ConfinedDir
from tenuto.tools.builtin.files import Files
from tenuto.tools.builtin.search import FileSearch
from tenuto.tools.builtin.shell import Shell, command_environment
from tenuto.tools.decorator import FunctionTool

__all__ = ["BUILTIN", "builtin_tools"]

BUILTIN = ("read_file", "write_file", "edit_file", "list_files", "search_files", "shell")  # the names of the tools


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
    shell = functools.partial(Shell, environment=command_environment(env or {}, pass_env), seconds=shell_timeout)
    rows: dict[str, tuple[Callable[[ConfinedDir], object], dict[str, Any]]] = {
        "read_file": (Files, {"effect": "pure", "timeout": 60}),
        "write_file": (Files, {"effect": "idempotent", "timeout": 60, "approval": approval}),
        "edit_file": (Files, {"effect": "once", "timeout": 60, "approval": approval}),
        "list_files": (Files, {"effect": "pure", "timeout": 60}),
        "search_files": (FileSearch, {"effect": "pure", "timeout": 60, "max_output": 100_000}),
        "shell": (shell, {"effect": "once", "approval": approval}),
    }
    directory = ConfinedDir(root)
    return {name: _BuiltinTool(name, directory, *rows[name]) for name in BUILTIN if name in wanted}


class _BuiltinTool(FunctionTool[..., Any]):
    """A method as a tool. `make_object` creates the object of the method for a directory."""

    def __init__(
        self, name: str, directory: ConfinedDir, make_object: Callable[[ConfinedDir], object], options: dict[str, Any]
    ) -> None:
        super().__init__(getattr(make_object(directory), name), root=str(directory.path), **options)
        self._make_object = make_object

    def at_root(self, root: str) -> Self:
        """Return the tool for another directory. Raise `NotADirectoryError` if it does not exist."""
        other = super().at_root(root)
        if other is not self:
            other._bind(getattr(self._make_object(ConfinedDir(root)), self.name))
        return other
