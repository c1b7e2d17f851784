"""Whom a transcript is handed to, and what they say of it: every simulated style, judged without a server."""

from __future__ import annotations

import json
from typing import Any

from msgspec.structs import replace

from sim.playing import rule_view
from tenuto import catalog
from tenuto.core.provider import Target, WireRequest
from tenuto.core.request import ChatRequest, ToolDefinition
from tenuto.rules import Judgement, judge
from tenuto.rules.issued_tokens import content_digest
from tenuto.sim import providers
from tenuto.sim.dialects import ParsedRequest
from tenuto.sim.providers import find
from tenuto.wire.write import write_request

__all__ = ["MODELS", "STYLES", "TOOL", "accepted", "asked", "judged", "opened_request", "taken", "target", "untold"]

STYLES = catalog.PROVIDERS["sim"].plays
MODELS = (
    "anthropic/claude-sonnet-4-5", "anthropic/claude-opus-4-6", "anthropic/claude-opus-5-5", "anthropic/claude-fable-5-1",
    "gemini/gemini-3-flash-preview", "gemini/gemini-2.5-flash", "gemini/gemini-3.5-flash", "openai/gpt-5.2",
    "openai/gpt-4o", "deepseek/deepseek-v4-pro", "moonshot/kimi-k2.6", "mistral/mistral-medium-latest", "xai/grok-4.5",
    "groq/llama-3.3-70b-versatile", "zai/glm-4.7",
)  # fmt: skip
"""Real models behind a style, whose own rules then hold."""
TOOL = ToolDefinition("weather", "Current weather", {"type": "object", "properties": {"city": {"type": "string"}}})


def target(named: str) -> Target:
    """Find a style, or a model behind one."""
    return catalog.resolve(f"sim/{named}")


def opened_request(wire: WireRequest, to: Target, account: str = "") -> ParsedRequest:
    """Make the request that a server would see."""
    body: dict[str, Any] = json.loads(wire.body)
    style, model = find(to.model, to.dialect)
    verb = "generateContent" if to.dialect == "gemini" else ""
    return ParsedRequest(
        provider=style, target=providers.target(style, model), model=model, requested_model=to.model, account=account, headers=wire.headers, body=body, method=verb,
        digest=content_digest(json.dumps(body), to.model, account),
    )  # fmt: skip


def judged(wire: WireRequest, to: Target) -> Judgement:
    """Let the simulator of the target judge a request."""
    return judge(rule_view(opened_request(wire, to)))


def asked(messages, to: Target, **given) -> WireRequest:
    """Write a transcript for a target, with the tool that its calls call."""
    return write_request(ChatRequest(model=to.model, messages=tuple(messages), tools=(TOOL,), **given), to)


def accepted(messages, to: Target, **given) -> WireRequest:
    """Hand a transcript over; it is a fault if the target's simulator refuses it. Return what was sent."""
    return taken(messages, to, **given)[0]


def taken(messages, to: Target, **given) -> tuple[WireRequest, Judgement]:
    """Hand a transcript over, and return what was sent and what the simulator says of it, which is no refusal."""
    wire = asked(messages, to, **given)
    verdict = judged(wire, to)
    refusal = verdict.refusal
    assert refusal is None, f"{to.model}: {refusal}\n{wire.body.decode()}"
    return wire, verdict


def untold(to: Target) -> Target:
    """The same target, of whose model nobody knows anything."""
    return replace(to, traits=type(to.traits)())
