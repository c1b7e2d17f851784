"""Targets of a handover, and the simulator's judgement of their requests, without a server."""

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

SIM_PROVIDERS = catalog.PROVIDERS["sim"].plays
MODELS = (
    "anthropic/claude-sonnet-4-5", "anthropic/claude-opus-4-6", "anthropic/claude-opus-5-5", "anthropic/claude-fable-5-1",
    "gemini/gemini-3-flash-preview", "gemini/gemini-2.5-flash", "gemini/gemini-3.5-flash", "openai/gpt-5.2",
    "openai/gpt-4o", "deepseek/deepseek-v4-pro", "moonshot/kimi-k2.6", "mistral/mistral-medium-latest", "xai/grok-4.5",
    "groq/llama-3.3-70b-versatile", "zai/glm-4.7",
)  # fmt: skip
"""Models that have rules of their own."""
TOOL = ToolDefinition("weather", "Current weather", {"type": "object", "properties": {"city": {"type": "string"}}})


def target(named: str) -> Target:
    """Resolve a simulated provider or a model."""
    return catalog.resolve(f"sim/{named}")


def parsed_request(wire: WireRequest, to: Target, account: str = "") -> ParsedRequest:
    """Return the request as the simulator sees it."""
    body: dict[str, Any] = json.loads(wire.body)
    style, model = find(to.model, to.dialect)
    verb = "generateContent" if to.dialect == "gemini" else ""
    return ParsedRequest(
        provider=style, target=providers.target(style, model), model=model, requested_model=to.model, account=account, headers=wire.headers, body=body, method=verb,
        digest=content_digest(json.dumps(body), to.model, account),
    )  # fmt: skip


def judge_request(wire: WireRequest, to: Target) -> Judgement:
    """Judge a request by the rules of its target."""
    return judge(rule_view(parsed_request(wire, to)))


def write(messages, to: Target, **fields) -> WireRequest:
    """Write a transcript for a target, with the tool that its calls use."""
    return write_request(ChatRequest(model=to.model, messages=tuple(messages), tools=(TOOL,), **fields), to)


def accept(messages, to: Target, **fields) -> WireRequest:
    """Write a transcript and check that the simulator accepts it; return the request."""
    return accept_and_judge(messages, to, **fields)[0]


def accept_and_judge(messages, to: Target, **fields) -> tuple[WireRequest, Judgement]:
    """Write a transcript, check that the simulator accepts it, and return the request with its judgement."""
    wire = write(messages, to, **fields)
    verdict = judge_request(wire, to)
    refusal = verdict.refusal
    assert refusal is None, f"{to.model}: {refusal}\n{wire.body.decode()}"
    return wire, verdict


def without_traits(to: Target) -> Target:
    """Return the target without known traits of its model."""
    return replace(to, traits=type(to.traits)())
