"""Blocks of the tools that the provider runs: web search and code, with the tokens in their results."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tenuto.sim.anthropic.sealing import sealed
from tenuto.sim.mint import Mint, digest
from tenuto.sim.script import Cite, Found, RunCode

__all__ = [
    "citation", "code_form", "code_result", "code_use", "container", "late_result", "search_result", "search_use",
]  # fmt: skip

_DIRECT = {"type": "direct"}
_INDEX = 138
_AGES = (None, None, None, "2 days ago", "3 weeks ago", "May 2, 2026", "November 19, 2025")


def _use(mint: Mint, name: str, given: dict[str, Any]) -> dict[str, Any]:
    return {"type": "server_tool_use", "id": f"srvtoolu_01{mint.word(22)}", "name": name, "input": given}


def search_use(mint: Mint, query: str) -> dict[str, Any]:
    """Return a search."""
    return _use(mint, "web_search", {"query": query})


def search_result(mint: Mint, id: str, found: Iterable[Found]) -> dict[str, Any]:
    """Return what a search found."""
    content = [
        {
            "type": "web_search_result",
            "title": one.title,
            "url": one.url,
            "encrypted_content": _token(mint, "found", one.url, 220 + len(one.text) + mint.random.randrange(900)),
            "page_age": mint.random.choice(_AGES),
        }
        for one in found
    ]
    return {"type": "web_search_tool_result", "tool_use_id": id, "content": content, "caller": _DIRECT}


def citation(mint: Mint, cite: Cite) -> dict[str, Any]:
    """Return a source of a text."""
    return {
        "type": "web_search_result_location",
        "cited_text": cite.quote,
        "url": cite.url,
        "title": cite.title,
        "encrypted_index": _token(mint, "index", cite.url, _INDEX),
    }


def code_form(tools: Iterable[dict[str, Any]]) -> str:
    """Return how code is run with these tools: `bash`, `python`, or `hidden` where a search filters what it finds."""
    types = [str(tool.get("type")) for tool in tools]
    if any(type.startswith("web_search_2026") for type in types):
        return "hidden"
    return "python" if "code_execution_20250522" in types else "bash"


def code_use(mint: Mint, form: str, code: str) -> dict[str, Any]:
    """Return a run of code."""
    return (
        _use(mint, "bash_code_execution", {"command": code})
        if form == "bash"
        else _use(mint, "code_execution", {"code": code})
    )


def code_result(mint: Mint, form: str, id: str, run: RunCode) -> dict[str, Any]:
    """Return what a run of code printed."""
    printed, failed = (run.output, "") if run.ok else ("", run.output)
    rest = {"stderr": failed, "return_code": int(not run.ok), "content": []}
    if form == "hidden":
        token = _token(mint, "stdout", id, 160 + len(printed))
        content = {"type": "encrypted_code_execution_result", "encrypted_stdout": token, **rest}
    else:
        type = "bash_code_execution_result" if form == "bash" else "code_execution_result"
        content = {"type": type, "stdout": printed, **rest}
    name = "bash_code_execution" if form == "bash" else "code_execution"
    return {"type": f"{name}_tool_result", "tool_use_id": id, "content": content}


def late_result(mint: Mint, use: dict[str, Any], tools: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """Return the result of a use in whose middle a turn was paused."""
    id, name = use["id"], use["name"]
    if use["type"] == "mcp_tool_use":
        return {"type": "mcp_tool_result", "tool_use_id": id, "is_error": False, "content": []}
    if name == "web_search":
        return search_result(mint, id, [Found("https://example.org/more", "More about it")])
    if name in ("bash_code_execution", "code_execution"):
        form = "bash" if name == "bash_code_execution" else code_form(tools)
        return code_result(mint, form, id, RunCode("", "done\n"))
    error = {"type": f"{name}_tool_result_error", "error_code": "unavailable"}
    return {"type": f"{name}_tool_result", "tool_use_id": id, "content": error}


def container(mint: Mint, named: Any) -> dict[str, str]:
    """Return the container in which code ran: the one that was named, or a new one."""
    id = named if isinstance(named, str) else named.get("id") if isinstance(named, dict) else None
    minute, second = divmod(mint.random.randrange(3600), 60)
    expires = f"2026-11-15T12:{minute:02d}:{second:02d}.{mint.random.randrange(10**6):06d}Z"
    return {"id": id or f"container_01{mint.word(22)}", "expires_at": expires}


def _token(mint: Mint, kind: str, about: str, size: int) -> str:
    return sealed(mint, {"k": kind, "u": digest(about)}, size)
