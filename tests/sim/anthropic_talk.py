"""Talks to the Messages dialect without a server: asks, judges, answers, and sends answers back."""

from __future__ import annotations

import json
from typing import Any

from tenuto.sim.anthropic.voice import VOICE
from tenuto.sim.asked import Request, Style
from tenuto.sim.judging import Verdict, judge
from tenuto.sim.mint import Mint, Seals, digest
from tenuto.sim.script import Call, Fault, Step

__all__ = [
    "BOUND", "OPEN", "SEED", "WEATHER", "ask", "blocks", "go_on", "reply", "request", "results", "tell", "user", "verdict", "written",
]  # fmt: skip

SEED = "tenuto"
OPEN, BOUND = "claude-opus-4-6", "claude-opus-5-5"
"""A model whose thoughts are shown and bound to nothing, and one whose thoughts are bound to what came before."""
WEATHER = {
    "name": "weather",
    "description": "Current weather",
    "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}},
}


def user(*said: Any) -> dict[str, Any]:
    """Say something as the user: one text, or blocks."""
    return {"role": "user", "content": said[0] if len(said) == 1 and isinstance(said[0], str) else list(said)}


def tell(*blocks: Any) -> dict[str, Any]:
    """Say something as the assistant."""
    return user(*blocks) | {"role": "assistant"}


def ask(*messages: dict[str, Any], **settings: Any) -> dict[str, Any]:
    """Make a body that no model refuses."""
    body = {"model": "any", "max_tokens": 4000, "tools": [WEATHER], "messages": list(messages) or [user("Weather?")]}
    return {name: value for name, value in {**body, **settings}.items() if value is not None}


def request(
    body: dict[str, Any], model: str = "", *, style: str = "anthropic", account: str = "me", **more: Any
) -> Request:
    """Make the request that a server would."""
    envelope = "deepseek" if style == "deepseek" else "anthropic"
    named = Style(name=style, dialect="anthropic-messages", envelope=envelope, models="claude-.*|deepseek-.*")
    headers = {"Anthropic-Beta": more.pop("betas", ""), **more.pop("headers", {})}
    plain = {name: value for name, value in body.items() if name != "stream"}
    return Request(
        style=named, model=model, named=model or style, account=account, headers=headers, body=body,
        digest=digest(json.dumps(plain), model, account), seals=Seals(SEED), stream=bool(body.get("stream")), **more,
    )  # fmt: skip


def verdict(body: dict[str, Any], model: str = "", **more: Any) -> Verdict:
    """Judge a body."""
    return judge(VOICE.open(request(body, model, **more)), VOICE.checks)


def written(body: dict[str, Any], turn: tuple[Step, ...], model: str = "", **more: Any) -> list[bytes | Fault]:
    """Say a turn in answer to a body, which must not be refused."""
    asked = request(body, model, **more)
    opened = VOICE.open(asked)
    refusal = judge(opened, VOICE.checks).refusal
    assert refusal is None, (refusal.message, refusal.place)
    return VOICE.write(VOICE.read(opened), turn, Mint(SEED, asked.digest))


def reply(body: dict[str, Any], turn: tuple[Step, ...], model: str = "", **more: Any) -> dict[str, Any]:
    """Return the whole message that answers a body."""
    (found,) = written({**body, "stream": False}, turn, model, **more)
    assert isinstance(found, bytes)
    return json.loads(found)


def results(message: dict[str, Any]) -> list[dict[str, Any]]:
    """Return a result for every call of a message."""
    calls = [block for block in message["content"] if block["type"] == "tool_use"]
    return [{"type": "tool_result", "tool_use_id": call["id"], "content": "rain"} for call in calls]


def go_on(body: dict[str, Any], *turns: tuple[Step, ...], model: str = OPEN, **more: Any) -> dict[str, Any]:
    """Play turns, each sent back as it came, with results or with another question behind it."""
    for turn in turns:
        message = reply(body, turn, model, **more)
        answer = user(*results(message)) if any(isinstance(step, Call) for step in turn) else user("And now?")
        body = {**body, "messages": [*body["messages"], tell(*message["content"]), answer]}
    return json.loads(json.dumps(body))


def blocks(body: dict[str, Any], at: int = 1) -> list[dict[str, Any]]:
    """Return the blocks of a message, to be tampered with."""
    return body["messages"][at]["content"]
