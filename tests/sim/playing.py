"""Plays one turn in any style, without a server: a question in the dialect, judged, read and answered."""

from __future__ import annotations

import importlib
import json
from typing import Any

from tenuto.sim.asked import Request
from tenuto.sim.judging import judge
from tenuto.sim.mint import Mint, Seals, digest
from tenuto.sim.script import Call, Cite, Found, Picture, RunCode, Say, Search, Think, Turn
from tenuto.sim.styles import find

__all__ = ["FOLDERS", "TURNS", "ask", "play", "question"]

FOLDERS = {
    "anthropic-messages": "anthropic",
    "openai-responses": "responses",
    "openai-chat": "chat",
    "gemini": "gemini",
}
SEED = "tenuto"
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
PROSE = "Bergen lies on the west coast; it rains there more often than not, and people own more than one umbrella. " * 3
FOUND = (
    Found("https://example.org/a", "A page", "Some words on it"),
    Found("https://example.org/b", "Another", "Other words"),
)
TURNS: dict[str, Turn] = {
    "text": (Say(PROSE),),
    "thought and text": (Think(PROSE), Say("It rains.")),
    "two thoughts": (Think(PROSE), Think("Again."), Say("It rains.")),
    "hidden thought": (Think("Nothing to see", redacted=True), Say("It rains.")),
    "call": (Call("weather", {"city": "Oslo"}),),
    "thought and call": (Think(PROSE), Call("weather", {"city": "Oslo"})),
    "text between": (Think("Hm."), Say("Let me look."), Call("weather", {"city": "Ærø"})),
    "parallel calls": (Think("Both."), Call("weather", {"city": "Oslo"}), Call("weather", {"city": "Bergen"})),
    "call without arguments": (Call("weather"),),
    "deep arguments": (Call("weather", {"city": "x", "more": {"list": [1, 2.5, None, True, "é \U0001f600"], "empty": {}}}),),
    "search": (Search("weather in Oslo", FOUND), Say("Rain.", cites=(Cite("https://example.org/a", "A page", "Some words"),))),
    "code": (RunCode("print(6 * 7)", "42\n"), Say("It is 42.")),
    "picture": (Say("Here:"), Picture()),
}  # fmt: skip


def question(dialect: str, named: str, *, stream: bool = False) -> dict[str, Any]:
    """Ask about the weather, with a tool and with thinking, in a dialect's own words."""
    asked = "What is the weather like in Oslo?"
    match dialect:
        case "anthropic-messages":
            return {
                "model": named, "max_tokens": 20_000, "messages": [{"role": "user", "content": asked}],
                "tools": [{"name": "weather", "description": "Current weather", "input_schema": SCHEMA}],
                **({"stream": True} if stream else {}),
            }  # fmt: skip
        case "openai-responses":
            return {
                "model": named, "input": asked, "reasoning": {"summary": "auto"}, "store": False,
                "tools": [{"type": "function", "name": "weather", "description": "Weather", "parameters": SCHEMA, "strict": False}],
                **({"stream": True} if stream else {}),
            }  # fmt: skip
        case "openai-chat":
            function = {"name": "weather", "description": "Weather", "parameters": SCHEMA}
            return {
                "model": named, "messages": [{"role": "user", "content": asked}],
                "tools": [{"type": "function", "function": function}],
                **({"stream": True} if stream else {}),
            }  # fmt: skip
    return {
        "contents": [{"role": "user", "parts": [{"text": asked}]}],
        "tools": [{"functionDeclarations": [{"name": "weather", "description": "Weather", "parametersJsonSchema": SCHEMA}]}],
        "generationConfig": {"thinkingConfig": {"includeThoughts": True}},
    }  # fmt: skip


def ask(dialect: str, named: str, body: dict[str, Any], *, stream: bool = False, account: str = "") -> Request:
    """Make the request that a server would."""
    style, model = find(named, dialect)
    verb = ("streamGenerateContent" if stream else "generateContent") if dialect == "gemini" else ""
    plain = {name: value for name, value in body.items() if name not in ("stream", "stream_options")}
    return Request(
        style=style, model=model, named=named, account=account, headers={"x-sim-alt": "sse"}, body=body, verb=verb,
        digest=digest(json.dumps(plain), named, account), seals=Seals(SEED), stream=stream,
    )  # fmt: skip


def play(dialect: str, named: str, turn: Turn, *, stream: bool, body: dict[str, Any] | None = None) -> bytes:
    """Ask, and return the bytes of the reply. A question that is refused is a fault."""
    voice = importlib.import_module(f"tenuto.sim.{FOLDERS[dialect]}.voice").VOICE
    request = ask(dialect, named, body or question(dialect, named, stream=stream), stream=stream)
    opened = voice.open(request)
    assert judge(opened, voice.checks).refusal is None
    pieces = voice.write(voice.read(opened), turn, Mint(SEED, request.digest))
    return b"".join(piece for piece in pieces if isinstance(piece, bytes))
