"""Write docs/reference.md, the options of agents, runs, clients and tools, from the source: `python docs/reference.py`."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tenuto import Client, Compaction, Hooks, Limits, Thinking, Timeouts, tool
from tenuto.agent.agent import AgentOptions, AsyncAgent
from tenuto.agent.run_settings import Instruction, RunParameters
from tenuto.client.client import AsyncClient
from tenuto.client.parameters import ChatParameters, ModelParameters, ProviderConfig, StructuredParameters
from tenuto.middleware import Retry
from tenuto.tools import Tool

PAGE = Path(__file__).with_name("reference.md")
INTRODUCTION = """\
# Reference

```python
from tenuto import Agent, Limits

agent = Agent("sim/anthropic", system="Be brief.", effort="low", limits=Limits(turns=20), store=None)
print(agent.run("What is 6 * 7?", max_tokens=1000).text)
```

Every option with its type, written from the source by `python docs/reference.py`; a test compares them. `docs/agent.md`,
`docs/tools.md` and `docs/client.md` explain them by tasks.
"""
ALIASES = (
    "core.provider core.request client.parameters client.middleware.base agent.config agent.events agent.output"
    " agent.run_settings tools.decorator tools.execution"
)
"""The modules whose type aliases are explained at the end."""
_ENTRY = re.compile(r"(?:^ +|`)(\w+)`?: (.+?)(?=`\w+`: |^ +\w+: |\n\n|\Z)", re.MULTILINE | re.DOTALL)
"""A parameter in a docstring: `name`: text, or an indented line "name: text"."""


def render() -> str:
    """Return the page."""
    of_model = "- and the [model parameters](#model-parameters)"
    of_chat = "- and the parameters of [`Client.chat`](#clientchat-clientstream)"
    sections = {
        "`Agent`": [*_parameters(AsyncAgent.__init__, AsyncAgent), *_fields(AgentOptions), of_model],
        "`run`, `send`, `stream`": [*_parameters(AsyncAgent.run, AsyncAgent), *_fields(RunParameters), of_model],
        "`Limits`": _fields(Limits),
        "`Compaction`": _fields(Compaction),
        "`Retry`": _fields(Retry),
        "`Hooks`": _methods(Hooks),
        "`@tool`": _parameters(tool, Tool),
        "`Tool`": _parameters(Tool.__init__, Tool),
        "`Client`": _parameters(AsyncClient.__init__, Client),
        "`Client.chat`, `Client.stream`": [*_fields(ChatParameters), of_model],
        "`Client.chat_structured`": [*_fields(StructuredParameters), of_chat],
        "Settings of a provider": _fields(ProviderConfig),
        "`Timeouts`": _fields(Timeouts),
        "Model parameters": _fields(ModelParameters),
        "`Thinking`": _fields(Thinking),
        "`Instruction`": _fields(Instruction),
    }
    sections["Types"] = _aliases("\n".join(line for entries in sections.values() for line in entries))
    return INTRODUCTION + "".join(
        f"\n## {title}\n\n" + "\n".join(entries) + "\n" for title, entries in sections.items()
    )


def _parse(source: Any) -> Any:
    return ast.parse(inspect.cleandoc("\n" + inspect.getsource(source)))


def _entry(code: str, text: str) -> str:
    text = " ".join(text.split())
    return f"- `{code}`" + (f": {text[0].upper()}{text[1:]}" if text else "")


def _assignments(body: list[Any]) -> Iterator[tuple[ast.AnnAssign, str]]:
    """Yield annotated assignments with the string under each."""
    for node, follower in zip(body, [*body[1:], None], strict=True):
        if isinstance(node, ast.AnnAssign):
            is_described = isinstance(follower, ast.Expr) and isinstance(follower.value, ast.Constant)
            yield node, follower.value.value if is_described else ""


def _fields(of: type) -> list[str]:
    nodes = _assignments(_parse(of).body[0].body)
    return [_entry(ast.unparse(node), text) for node, text in nodes if ast.unparse(node.target) != "_"]


def _parameters(function: Any, described: Any) -> list[str]:
    """Return the parameters of a function; its docstring, or that of a class, describes them."""
    texts = inspect.cleandoc(described.__doc__) + "\n\n" + inspect.cleandoc(function.__doc__ or "")
    descriptions = dict(_ENTRY.findall(texts))
    arguments = _parse(function).body[0].args
    positional = [*arguments.posonlyargs, *arguments.args]
    defaults = [None] * (len(positional) - len(arguments.defaults)) + arguments.defaults + arguments.kw_defaults
    constants = {name: ast.Constant(value) for name, value in function.__globals__.items()}
    entries = []
    for argument, default in zip([*positional, *arguments.kwonlyargs], defaults, strict=True):
        value = constants[default.id] if isinstance(default, ast.Name) else default
        if argument.arg not in ("self", "function"):
            code = ast.unparse(argument) + (f" = {ast.unparse(value)}" if value else "")
            entries.append(_entry(code, descriptions.get(argument.arg, "")))
    return entries


def _methods(of: type) -> list[str]:
    methods = [node for node in _parse(of).body[0].body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    return [_entry(f"{method.name}({ast.unparse(method.args)})", ast.get_docstring(method) or "") for method in methods]


def _aliases(text: str) -> list[str]:
    """Return the type aliases that a text contains, and those that they contain."""
    nodes = [
        pair
        for name in ALIASES.split()
        for pair in _assignments(_parse(importlib.import_module(f"tenuto.{name}")).body)
    ]
    known = {
        ast.unparse(node.target): _entry(ast.unparse(node).replace(": TypeAlias", ""), text)
        for node, text in nodes
        if ast.unparse(node.annotation) == "TypeAlias"
    }
    used: set[str] = set()
    while found := {*re.findall(r"\w+", text)} & known.keys() - used:
        used |= found
        text = "\n".join(known[name] for name in found)
    return [known[name] for name in sorted(used)]


if __name__ == "__main__":
    PAGE.write_text(render(), "utf-8")
