"""Asks the simulated Gemini without a server: judges bodies, answers them, and reads the parts of the answers."""

from __future__ import annotations

import json
from typing import Any

from tenuto.sim.asked import Request, Style
from tenuto.sim.gemini.voice import VOICE
from tenuto.sim.judging import Verdict, judge
from tenuto.sim.mint import Mint, Seals, digest
from tenuto.sim.script import Fault, Turn
from tenuto.sim.styles import find

__all__ = ["GEMINI", "VERTEX", "answers", "ask", "chunks", "exchange", "parts_of", "said", "user", "verdict", "weather"]

GEMINI, VERTEX = (find(name, "gemini")[0] for name in ("gemini", "vertex"))
SEED = "seed"


def user(*parts: dict[str, Any] | str) -> dict[str, Any]:
    return {"role": "user", "parts": [{"text": part} if isinstance(part, str) else part for part in parts]}


def said(*parts: dict[str, Any] | str) -> dict[str, Any]:
    return {**user(*parts), "role": "model"}


def weather(**more: Any) -> dict[str, Any]:
    """A function declared: the weather's."""
    return {"functionDeclarations": [{"name": "weather", "description": "Weather", **more}]}


def answers(parts: list[dict[str, Any]]) -> dict[str, Any]:
    """Answer every call among these parts."""
    calls = [part["functionCall"] for part in parts if "functionCall" in part]
    return user(
        *(
            {"functionResponse": {"name": call["name"], "response": {"output": "rain"}, **_id(call)}}
            for call in calls
        )
    )  # fmt: skip


def _id(call: dict[str, Any]) -> dict[str, str]:
    return {"id": call["id"]} if "id" in call else {}


def ask(
    body: dict[str, Any], model: str = "", style: Style = GEMINI, *, account: str = "", stream: bool = False, alt: str = "sse"
) -> Request:  # fmt: skip
    named = f"{style.name}/{model}" if model else style.name
    return Request(
        style=style, model=model, named=named, account=account, headers={"x-sim-alt": alt}, body=body,
        digest=digest(json.dumps(body), named, account), seals=Seals(SEED), stream=stream,
        verb="streamGenerateContent" if stream else "generateContent",
    )  # fmt: skip


def verdict(body: dict[str, Any], model: str = "", style: Style = GEMINI, *, account: str = "") -> Verdict:
    return judge(VOICE.open(ask(body, model, style, account=account)), VOICE.checks)


def exchange(request: Request, turn: Turn) -> list[bytes | Fault]:
    return VOICE.write(VOICE.read(VOICE.open(request)), turn, Mint(SEED, request.digest))


def chunks(pieces: list[bytes | Fault], *, stream: bool) -> list[dict[str, Any]]:
    """Read what was written: one body, or every chunk of a stream."""
    data = b"".join(piece for piece in pieces if isinstance(piece, bytes))
    if not stream:
        return [json.loads(data)]
    frames = data.split(b"\r\n\r\n")
    assert frames.pop() == b""
    assert all(frame.startswith(b"data: ") for frame in frames)
    return [json.loads(frame[6:]) for frame in frames]


def parts_of(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the parts of a reply, in their order, as they came."""
    return [
        part
        for chunk in found
        for candidate in chunk.get("candidates", [])[:1]
        for part in candidate.get("content", {}).get("parts", [])
    ]
