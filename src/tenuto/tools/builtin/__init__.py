"""Tools for the command line, off unless asked for: files inside one folder, and commands run in it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Self

from tenuto.tools.builtin.confined_dir import ConfinedDir
from tenuto.tools.builtin.environment import command_environment
from tenuto.tools.builtin.files import Files
from tenuto.tools.builtin.search import FileSearch
from tenuto.tools.builtin.shell import Shell
from tenuto.tools.decorator import FunctionTool

__all__ = ["BUILTIN", "builtin_tools", "command_environment"]

BUILTIN = ("read_file", "write_file", "edit_file", "list_files", "search_files", "shell")
"""The names of the tools there are."""


def builtin_tools(
    root: str | os.PathLike[str],
    *,
    names: Iterable[str] = BUILTIN,
    shell_timeout: float = 120.0,
    env: Mapping[str, str] | None = None,
    pass_env: Iterable[str] = (),
    approval: bool = True,
) -> dict[str, FunctionTool[..., Any]]:
    """Return the tools of these names, by name, for one directory.

    `root`: files outside it cannot be reached, by any path or link.
    `shell_timeout`: how many seconds a command may take.
    `env`: the environment from which commands get their variables, as in `os.environ`; only those of an allow-list
    (`PATH`, `HOME`, `LANG`, ...) and of `pass_env` are passed on. Without it, commands see only a `PATH`.
    `pass_env`: names, and globs as in `CARGO_*`, of more variables that commands may see.
    `approval`: whether `shell` and the tools that write need approval.

    Raise `ValueError` for a name that is not in `BUILTIN`, `NotADirectoryError` if `root` is not a directory.
    """
    wanted = tuple(names)
    unknown = [name for name in wanted if name not in BUILTIN]
    if unknown:
        raise ValueError(f"there is no builtin tool {unknown[0]!r}: there are {', '.join(BUILTIN)}")
    if not shell_timeout > 0:
        raise ValueError(f"shell_timeout={shell_timeout!r} is no number of seconds")
    variables = command_environment(env or {}, pass_env)

    def functions_at(directory: str | os.PathLike[str]) -> dict[str, Callable[..., Any]]:
        place = ConfinedDir(directory)
        files = Files(place)
        return {
            "read_file": files.read_file,
            "write_file": files.write_file,
            "edit_file": files.edit_file,
            "list_files": files.list_files,
            "search_files": FileSearch(place).search_files,
            "shell": Shell(place, variables, shell_timeout).shell,
        }

    options: dict[str, dict[str, Any]] = {
        "read_file": {"effect": "pure", "timeout": 60},
        "write_file": {"effect": "idempotent", "timeout": 60, "approval": approval},
        "edit_file": {"effect": "once", "timeout": 60, "approval": approval},
        "list_files": {"effect": "pure", "timeout": 60},
        "search_files": {"effect": "pure", "timeout": 60, "max_output": 100_000},
        "shell": {"effect": "once", "approval": approval},
    }
    return {name: _BuiltinTool(name, root, functions_at, options[name]) for name in BUILTIN if name in wanted}


class _BuiltinTool(FunctionTool[..., Any]):
    """A tool whose function depends on the directory."""

    def __init__(
        self,
        name: str,
        root: str | os.PathLike[str],
        functions_at: Callable[[str | os.PathLike[str]], Mapping[str, Callable[..., Any]]],
        options: Mapping[str, Any],
    ) -> None:
        super().__init__(functions_at(root)[name], root=str(ConfinedDir(root).path), **options)
        self._functions_at = functions_at

    def at_root(self, root: str) -> Self:
        """Return the tool for another directory. Raise `NotADirectoryError` if it does not exist."""
        return self if root == self.root else self._with_function(self._functions_at(root)[self.name], root)
