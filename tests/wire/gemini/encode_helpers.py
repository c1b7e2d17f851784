"""Helpers to encode requests."""

from __future__ import annotations

import json

from tenuto.core.blocks import GeminiMeta
from tenuto.core.messages import Message, UserMessage
from tenuto.core.provider import GeminiSwitches, ModelTraits, Provider, Target, WireRequest
from tenuto.core.request import ChatRequest
from tenuto.wire.body_builder import BodyBuilder
from tenuto.wire.gemini.encode import encode

SIGNED = GeminiMeta("c2ln")
LEVEL = ModelTraits(known=True, thinking=("level",), efforts=("minimal", "low", "medium", "high"))
BUDGET = ModelTraits(known=True, thinking=("budget",))


def target(traits: ModelTraits | None = None, model: str = "gemini-3-pro", **switches: object) -> Target:
    row = Provider("here", "gemini", "https://h.example", gemini=GeminiSwitches(**switches))
    return Target(row, model, "gemini", traits or ModelTraits())


def write(*messages: Message | str, to: Target | None = None, **fields: object) -> WireRequest:
    transcript = tuple(UserMessage(m) if isinstance(m, str) else m for m in messages or ("Hi",))
    return encode(BodyBuilder(ChatRequest(model="here/gemini-3-pro", messages=transcript, **fields), to or target()))


def body(*messages: Message | str, to: Target | None = None, **fields: object) -> dict:
    return json.loads(write(*messages, to=to, **fields).body)


def contents(*messages: Message | str, to: Target | None = None, **fields: object) -> list:
    return body(*messages, to=to, **fields)["contents"]


def losses(*messages: Message | str, to: Target | None = None, **fields: object) -> list[tuple[str, str]]:
    return [(loss.kind, str(loss.location)) for loss in write(*messages, to=to, **fields).losses]
