"""Rules of tools that the provider runs itself: uses and results stay together, and their tokens stay whole."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tenuto.sim.anthropic.opened import Block, Opened, is_server_result, is_server_use
from tenuto.sim.anthropic.request_rules import Found
from tenuto.sim.anthropic.sealing import claims_of
from tenuto.sim.judging import Broken, Checks
from tenuto.sim.mint import digest

__all__ = ["CHECKS"]

CHECKS = Checks()


@CHECKS.holds("ANT-SRV-01")
def results_have_uses(opened: Opened) -> Found:
    """The provider's result stands behind its use; one that waited for the client's results, in the next message."""
    waiting: set[str] = set()
    for _, message in opened.assistants():
        known = set(waiting)
        for block in message.blocks:
            if is_server_use(block.type):
                known.add(block.raw["id"])
            elif is_server_result(block.type):
                id = block.raw.get("tool_use_id")
                use = "mcp_tool_use" if block.type == "mcp_tool_result" else "server_tool_use"
                fields = {**block.at, "id": id, "type": block.type, "use": use}
                yield None if id in known else Broken("ANT-SRV-01", fields)
        waiting = known if message.of("tool_use") else set()


@CHECKS.holds("ANT-SRV-02")
def uses_have_results(opened: Opened) -> Found:
    """A use has its result, but in a turn that goes on, or that waits for the client's results."""
    for _, message in opened.assistants():
        results = {block.raw.get("tool_use_id") for block in message.blocks if is_server_result(block.type)}
        going_on = message is opened.continued or message.of("tool_use")
        for block in message.blocks:
            if is_server_use(block.type):
                kept = going_on or block.raw["id"] in results
                fields = {**block.at, "id": block.raw["id"], "name": block.raw["name"]}
                yield None if kept else Broken("ANT-SRV-02", fields)


@CHECKS.holds("ANT-SRV-03")
def advisors_stay_declared(opened: Opened) -> Found:
    """A history with an advisor keeps the tool."""
    declared = any(str(tool.get("type")).startswith("advisor") for tool in opened.tools)
    for block in opened.blocks("advisor_tool_result", "server_tool_use"):
        if block.type == "advisor_tool_result" or block.raw["name"] == "advisor":
            told = f"messages.{block.i}.content.{block.j}: `advisor` blocks need the advisor tool in `tools`"
            yield None if declared else Broken("ANT-SRV-03", block.at, says=told)


@CHECKS.holds("ANT-SRV-04")
def tokens_are_whole(opened: Opened) -> Found:
    """What was encrypted comes back as it went, with what it belongs to."""
    if not opened.signs:
        return
    for block, key, holder, kind, about in _tokens(opened):
        claims = claims_of(opened.request.seals, holder.get(key), kind)
        whole = claims is not None and claims["u"] == digest(str(about))
        told = f"messages.{block.i}.content.{block.j}: Invalid `{key}` in `{block.type}` block"
        yield None if whole else Broken("ANT-SRV-04", block.at, says=told)


def _tokens(opened: Opened) -> Iterator[tuple[Block, str, dict[str, Any], str, Any]]:
    """Yield what should hold a token: the block, the key, who holds it, the kind of token, and what it is about."""
    for block in opened.blocks("web_search_tool_result", "text", "code_execution_tool_result"):
        content = block.raw.get("content" if block.type != "text" else "citations")
        if isinstance(content, dict) and content.get("type") == "encrypted_code_execution_result":
            yield block, "encrypted_stdout", content, "stdout", block.raw.get("tool_use_id")
        for inner in content if isinstance(content, list) else []:
            type = inner.get("type") if isinstance(inner, dict) else ""
            if type == "web_search_result":
                yield block, "encrypted_content", inner, "found", inner.get("url")
            elif type == "web_search_result_location":
                yield block, "encrypted_index", inner, "index", inner.get("url")


@CHECKS.holds("ANT-SRV-05")
def containers_come_back(opened: Opened) -> Found:
    """Code that ran in a container goes on there, by the container's id."""
    ran = any("code_execution_tool_result" in block.type for block in opened.blocks())
    offered = any(str(tool.get("type")).startswith("code_execution") for tool in opened.tools)
    if ran and offered:
        container = opened.body.get("container")
        lost = container is None or (opened.paused and not isinstance(container, str))
        yield Broken("ANT-SRV-05") if lost else None
