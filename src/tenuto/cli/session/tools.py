"""Load the tools given with -T: built-ins by name, user tools as module:function."""

from __future__ import annotations

import difflib
import importlib
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tenuto import settings
from tenuto.core import jsonio
from tenuto.core.request import ServerTool
from tenuto.tools.builtin import BUILTIN, builtin_tools
from tenuto.tools.toolbox import Toolbox

if TYPE_CHECKING:
    from tenuto.core.journal import Configured
    from tenuto.tools.toolbox import AnyTool


def load_tools(names: Sequence[str], root: str) -> list[AnyTool]:
    """Return the tools of these names. Raise `click.UsageError` for one that is not there."""
    wanted = list(dict.fromkeys(names))
    for name in wanted:
        if ":" not in name and name not in BUILTIN:
            near = difflib.get_close_matches(name, BUILTIN, n=2)
            meant = f"did you mean {' or '.join(near)}?" if near else f"there are {', '.join(BUILTIN)}"
            raise click.UsageError(f"there is no tool {name!r}: {meant} (your own is MODULE:FUNCTION)")
    builtin = _load_builtin([name for name in wanted if ":" not in name], root)
    return [_load_user_tool(name) if ":" in name else builtin[name] for name in wanted]


def _load_builtin(names: Iterable[str], root: str) -> Mapping[str, AnyTool]:
    wanted = tuple(names)
    if not wanted:
        return {}
    environment = settings.environment()
    named = environment.get("TENUTO_PASS_ENV", "").replace(",", " ").split()
    try:
        return builtin_tools(Path(root).expanduser(), names=wanted, env=environment, pass_env=named)
    except (OSError, RuntimeError) as exc:  # no such directory or user
        raise click.UsageError(f"--root {root!r} cannot be used: {getattr(exc, 'strerror', None) or exc}") from None


def _load_user_tool(name: str) -> AnyTool:
    """Load `module:function`; the current folder is looked into first, as for a program that is started there."""
    module, _, path = name.partition(":")
    here = str(Path.cwd())
    if here not in sys.path and "" not in sys.path:
        sys.path.insert(0, here)
    try:
        found: Any = importlib.import_module(module)
    except (Exception, SystemExit) as exc:  # the module runs any code, also sys.exit()
        raise click.UsageError(f"-T {name}: {module!r} cannot be imported: {type(exc).__name__}: {exc}") from exc
    for step in path.split("."):
        near = difflib.get_close_matches(step, dir(found), n=2)
        if not hasattr(found, step):
            meant = f"; did you mean {' or '.join(near)}?" if near else ""
            raise click.UsageError(f"-T {name}: there is no {step!r} in {module}{meant}")
        found = getattr(found, step)
    try:
        Toolbox([found])
    except (TypeError, ValueError) as exc:
        raise click.UsageError(f"-T {name}: {exc}") from None
    tool: AnyTool = found
    return tool


def restore_tools(kept: Configured | None, given: Sequence[AnyTool], root: str) -> list[AnyTool]:
    """Return the tools of a session that goes on: those given now, and of those that it was told of the builtin ones and
    the provider's. Others have to be given again: `MissingTool` names them.
    """
    told: list[Any] = jsonio.parse(kept.tools) if kept is not None and kept.tools else []
    here = Toolbox(given)
    names = [tool["name"] for tool in told if "name" in tool]
    builtin = _load_builtin([name for name in names if name in BUILTIN and name not in here.names()], root)
    served = [jsonio.decode_as(jsonio.encode(tool), ServerTool) for tool in told if "name" not in tool]
    tools = [*given, *builtin.values(), *(tool for tool in served if tool not in here.definitions())]
    places = {tool.get("name") or tool.get("kind"): place for place, tool in enumerate(told)}
    return sorted(tools, key=lambda tool: places.get(_tool_name(tool), len(places)))  # in the stored order


def _tool_name(tool: AnyTool) -> str:
    first = Toolbox([tool]).definitions()[0]
    return first.kind if isinstance(first, ServerTool) else first.name
