"""Asks the chat dialect without a server: requests, verdicts, replies, and a reader of streams."""

from __future__ import annotations

import json
from typing import Any

from tenuto.sim.asked import Request
from tenuto.sim.chat.voice import VOICE
from tenuto.sim.judging import Verdict, judge
from tenuto.sim.mint import Mint, Seals
from tenuto.sim.script import Fault, Turn
from tenuto.sim.styles import find

__all__ = ["asked", "assembled", "call", "events", "request", "result", "user", "verdict", "whole", "written"]

SEED = "chat"


def request(named: str, body: dict[str, Any], *, stream: bool = False, seed: str = SEED) -> Request:
    """Make the request that a server would."""
    style, model = find(named, "openai-chat")
    return Request(
        style=style,
        model=model,
        named=named,
        account="",
        headers={},
        body={"model": named, **body},
        digest=json.dumps(body, sort_keys=True),
        seals=Seals(seed),
        stream=stream,
    )


def verdict(named: str, body: dict[str, Any], *, stream: bool = False, seed: str = SEED) -> Verdict:
    """Judge a request."""
    return judge(VOICE.open(request(named, body, stream=stream, seed=seed)), VOICE.checks)


def asked(named: str, body: dict[str, Any], *, stream: bool = False) -> Any:
    """Read a request."""
    return VOICE.read(VOICE.open(request(named, body, stream=stream)))


def written(named: str, turn: Turn, body: dict[str, Any] | None = None, *, stream: bool = False) -> list[bytes | Fault]:
    """Write a turn."""
    found = asked(named, body or {"messages": [user("hi")]}, stream=stream)
    return VOICE.write(found, turn, Mint(SEED, found.request.digest))


def whole(named: str, turn: Turn, body: dict[str, Any] | None = None) -> dict[str, Any]:
    """Write a turn as one body."""
    (found,) = written(named, turn, body)
    assert isinstance(found, bytes)
    return json.loads(found)


def events(frames: list[bytes | Fault]) -> list[dict[str, Any]]:
    """Return the chunks of a stream."""
    lines = b"".join(frame for frame in frames if isinstance(frame, bytes)).decode().split("\n\n")
    data = [part for line in lines for part in line.split("\n") if part.startswith("data: ")]
    return [json.loads(line[6:]) for line in data if line != "data: [DONE]"]


def user(content: Any) -> dict[str, Any]:
    return {"role": "user", "content": content}


def call(id: str = "call_1", args: Any = "{}", name: str = "f", **rest: Any) -> dict[str, Any]:
    """An assistant message with one call."""
    function = {"name": name, "arguments": args}
    calls = [{"id": id, "type": "function", "function": function}]
    return {"role": "assistant", "content": "", "tool_calls": calls, **rest}


def result(id: str = "call_1", **rest: Any) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": id, "content": "ok", **rest}


def assembled(chunks: list[dict[str, Any]], index: int = 0) -> dict[str, Any]:
    """Put the deltas of a choice together, as a client that knows all styles would."""
    message: dict[str, Any] = {}
    for chunk in chunks:
        for choice in chunk["choices"]:
            if choice["index"] == index:
                for key, value in choice["delta"].items():
                    _add(message, key, value)
    if "reasoning_details" in message:
        message["reasoning_details"] = list(message["reasoning_details"].values())
    return message


def _add(message: dict[str, Any], key: str, value: Any) -> None:
    if key == "tool_calls":
        for fragment in value:
            _fragment(message.setdefault(key, []), fragment)
    elif key == "reasoning_details":
        for one in value:
            _detail(message.setdefault(key, {}), one)
    elif key == "content" and (isinstance(value, list) or isinstance(message.get(key), list)):
        message[key] = _chunks(message.get(key), value)
    elif isinstance(value, str) and key not in ("role", "channel"):
        message[key] = (message.get(key) or "") + value
    elif isinstance(value, list):
        message[key] = message.get(key, []) + value
    elif key not in ("channel", "token_id"):
        message[key] = message.get(key) if value is None else value


def _fragment(calls: list[dict[str, Any]], fragment: dict[str, Any]) -> None:
    if fragment["index"] == len(calls):
        calls.append(json.loads(json.dumps(fragment)))
    else:
        calls[fragment["index"]]["function"]["arguments"] += fragment["function"]["arguments"]


def _detail(details: dict[Any, dict[str, Any]], one: dict[str, Any]) -> None:
    mine = details.setdefault((one["index"], one["type"]), {})
    for key, value in one.items():
        mine[key] = mine.get(key, "") + value if key in ("text", "summary", "data", "signature") else value


def _chunks(before: Any, value: Any) -> list[dict[str, Any]]:
    """Mistral: thinking goes on until it is signed or text comes; text goes on in lists and in strings."""
    chunks = [{"type": "text", "text": before}] if isinstance(before, str) and before else list(before or [])
    for one in [{"type": "text", "text": value}] if isinstance(value, str) else value:
        last = chunks[-1] if chunks else {}
        if one["type"] == "text":
            if last.get("type") == "text":
                last["text"] += one["text"]
            elif one["text"]:
                chunks.append(dict(one))
        elif last.get("type") == "thinking" and "signature" not in last:
            text = last["thinking"][0]["text"] + "".join(part["text"] for part in one["thinking"])
            chunks[-1] = {**last, **one, "thinking": [{"type": "text", "text": text}]}
        else:
            chunks.append(dict(one))
    return chunks
