"""Load the tools given with -T: built-ins by name, user tools as module:function."""

from __future__ import annotations

import difflib
import importlib
import sys
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tenuto import settings
from tenuto.agent.sub_agents import AgentTool
from tenuto.cli.terminal.text import closest_names
from tenuto.core import jsonio
from tenuto.core.request import ServerTool
from tenuto.tools.builtin import BUILTIN, builtin_tools
from tenuto.tools.toolbox import Toolbox

if TYPE_CHECKING:
    from tenuto.agent.call_policy import CallPolicy
    from tenuto.core.journal import Configured
    from tenuto.tools.toolbox import AnyTool


def load_tools(names: Sequence[str], root: str) -> list[AnyTool]:
    """Return the tools of these names. Raise `click.UsageError` for one that is not there."""
    wanted = list(dict.fromkeys(names))
    own = [name for name in wanted if ":" not in name]
    for name in own:
        if name not in BUILTIN:
            hint = closest_names(name, BUILTIN)
            raise click.UsageError(f"unknown tool {name!r}: {hint} (built-in name or MODULE:FUNCTION)")
    builtin = _load_builtin(own, root)
    return [_load_user_tool(name) if ":" in name else builtin[name] for name in wanted]


def _load_builtin(names: Sequence[str], root: str) -> Mapping[str, AnyTool]:
    if not names:
        return {}
    environment = settings.environment()
    passed = environment.get("TENUTO_PASS_ENV", "").replace(",", " ").split()
    try:
        return builtin_tools(Path(root).expanduser(), names=names, env=environment, pass_env=passed)
    except (OSError, RuntimeError) as exc:  # no such directory or user
        raise click.UsageError(f"--root {root!r} cannot be used: {getattr(exc, 'strerror', None) or exc}") from None


def _load_user_tool(name: str) -> AnyTool:
    found: AnyTool = load_attribute("-T", name)
    try:
        Toolbox([found])
    except (TypeError, ValueError) as exc:
        raise click.UsageError(f"-T {name}: {exc}") from None
    return found


def load_attribute(option: str, name: str) -> Any:
    """Load `module:attribute`, from the current directory first. Raise `click.UsageError`."""
    module, _, path = name.partition(":")
    here = str(Path.cwd())
    if here not in sys.path and "" not in sys.path:
        sys.path.insert(0, here)
    try:
        found: Any = importlib.import_module(module)
    except (Exception, SystemExit) as exc:  # the module runs any code, also sys.exit()
        problem = f"{module!r} cannot be imported: {type(exc).__name__}: {exc}"
        raise click.UsageError(f"{option} {name}: {problem}") from exc
    for step in path.split("."):
        if not hasattr(found, step):
            near = " or ".join(difflib.get_close_matches(step, dir(found), n=2))
            hint = f"; did you mean {near}?" if near else ""
            raise click.UsageError(f"{option} {name}: {module} has no {step!r}{hint}")
        found = getattr(found, step)
    return found


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
