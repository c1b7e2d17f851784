"""Load the tools given with -T: built-ins by name, user tools as module:function."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Collection, Mapping, Sequence
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import click

from tenuto import settings
from tenuto.agent.sub_agents import AgentTool
from tenuto.cli.terminal.text import closest_names, similar_names
from tenuto.core import jsonio
from tenuto.core.request import ServerTool
from tenuto.tools.builtin import BUILTIN, builtin_tools
from tenuto.tools.decorator import Tool
from tenuto.tools.toolbox import Toolbox

if TYPE_CHECKING:
    from tenuto.agent.call_policy import CallPolicy
    from tenuto.core.journal import Configured
    from tenuto.tools.toolbox import AnyTool


GROUPS = {
    "all": BUILTIN,
    "files": tuple(name for name in BUILTIN if name != "shell"),
    "read": ("read_file", "list_files", "search_files"),
}


def load_tools(names: Sequence[str], root: str) -> list[AnyTool]:
    """Return the tools of names, groups and lists with commas. Raise `click.UsageError` for one that is not there."""
    parts = [part.strip() for name in names for part in name.split(",")]
    wanted = list(dict.fromkeys(name for part in parts for name in GROUPS.get(part, (part,))))
    builtin_names = [name for name in wanted if not is_user_tool(name)]
    for name in builtin_names:
        if name not in BUILTIN:
            hint = closest_names(name, [*BUILTIN, *GROUPS])
            raise click.UsageError(f"unknown tool {name!r}: {hint} (a name, a group, MODULE:FUNCTION or FILE.py)")
    builtin = _load_builtin(builtin_names, root)
    return [tool for name in wanted for tool in (_load_user_tools(name) if is_user_tool(name) else [builtin[name]])]


def is_user_tool(name: str) -> bool:
    return ":" in name or name.endswith(".py")


def _load_builtin(names: Sequence[str], root: str) -> Mapping[str, AnyTool]:
    if not names:
        return {}
    environment = settings.environment()
    passed = environment.get("TENUTO_PASS_ENV", "").replace(",", " ").split()
    try:
        return builtin_tools(Path(root).expanduser(), names=names, env=environment, pass_env=passed)
    except (OSError, RuntimeError) as exc:  # no such directory or user
        raise click.UsageError(f"--root {root!r} cannot be used: {getattr(exc, 'strerror', None) or exc}") from None


def _load_user_tools(name: str) -> list[AnyTool]:
    """Return the tool of `module:function` or `file.py:function`, or all of `file.py`."""
    found = load_attribute("-T", name)
    tools = [found] if ":" in name else [value for value in vars(found).values() if isinstance(value, Tool)]
    if not tools:
        raise click.UsageError(f"-T {name}: the file has no tools; a tool is a function with @tool")
    try:
        Toolbox(tools)
    except (TypeError, ValueError) as exc:
        raise click.UsageError(f"-T {name}: {exc}") from None
    return tools


def load_attribute(option: str, name: str) -> Any:
    """Load `module:attribute`, from the current directory first, or `file.py:attribute`. Without one, return the module.

    Raise `click.UsageError`.
    """
    module, _, path = name.rpartition(":") if not name.endswith(".py") else (name, "", "")
    here = str(Path.cwd())
    if here not in sys.path and "" not in sys.path:
        sys.path.insert(0, here)
    if module.endswith(".py") and not Path(module).expanduser().is_file():
        raise click.UsageError(f"{option} {name}: file not found")
    try:
        found: Any = _load_file(module) if module.endswith(".py") else importlib.import_module(module)
    except (Exception, SystemExit) as exc:  # the module runs any code, also sys.exit()
        problem = f"{module!r} cannot be imported: {type(exc).__name__}: {exc}"
        raise click.UsageError(f"{option} {name}: {problem}") from exc
    for step in filter(None, path.split(".")):
        if not hasattr(found, step):
            near = " or ".join(similar_names(step, dir(found)))
            hint = f"; did you mean {near}?" if near else ""
            raise click.UsageError(f"{option} {name}: {module} has no {step!r}{hint}")
        found = getattr(found, step)
    return found


def _load_file(name: str) -> ModuleType:
    path = Path(name).expanduser().resolve()
    key = str(path)  # its stem may be the name of another module
    if key not in sys.modules:
        loader = SourceFileLoader(key, key)
        module = ModuleType(key)
        loader.exec_module(module)
        sys.modules[key] = module
    return sys.modules[key]


def restore_tools(config: Configured | None, given: Sequence[AnyTool], root: str) -> list[AnyTool]:
    """Return the given tools, and the built-in and provider tools of a continued session; others may be missing."""
    stored: list[Any] = jsonio.parse(config.tools) if config is not None and config.tools else []
    here = Toolbox(given)
    names = [tool["name"] for tool in stored if "name" in tool]
    builtin = _load_builtin([name for name in names if name in BUILTIN and name not in here.names()], root)
    served = [jsonio.decode_as(jsonio.encode(tool), ServerTool) for tool in stored if "name" not in tool]
    tools = [*given, *builtin.values(), *(tool for tool in served if tool not in here.definitions())]
    order = [tool.get("name") or tool.get("kind") for tool in stored]

    def place(tool: AnyTool) -> int:
        first = Toolbox([tool]).definitions()[0]
        name = first.kind if isinstance(first, ServerTool) else first.name
        return order.index(name) if name in order else len(order)

    return sorted(tools, key=place)


def check_patterns(policy: CallPolicy, typed: Collection[str], tools: Sequence[AnyTool]) -> None:
    """Raise `click.UsageError` for a typed pattern without a tool, and for denials of tools that a provider runs."""
    names, served = set(BUILTIN), set[str]()
    boxes = [Toolbox([tool]) for tool in tools]
    for box in boxes:  # those of sub-agents are added
        served |= {one.kind for one in box.definitions() if isinstance(one, ServerTool)}
        names |= {*box.names(), *served}
        for tool in map(box.get, box.names()):
            below = getattr(tool.agent, "toolbox", None) if isinstance(tool, AgentTool) else None
            if isinstance(below, Toolbox) and below not in boxes:
                boxes.append(below)
    for pattern in (*policy.allow, *policy.deny):
        if str(pattern) in typed and not any(map(pattern.matches_tool, names)):
            hint = closest_names(pattern.name, sorted(names))
            raise click.UsageError(f"{pattern}: unknown tool {pattern.name!r}: {hint}")
    for pattern in policy.deny:
        for kind in filter(pattern.matches_tool, served):
            raise click.UsageError(f"--deny {pattern}: the provider runs {kind} without asking; omit the tool instead")
