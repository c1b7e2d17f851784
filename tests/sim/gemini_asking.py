"""Send requests to the simulated Gemini without a server, judge them, and read the parts of the replies."""

from __future__ import annotations

import json
from typing import Any

from tenuto.rules.body import RequestContext
from tenuto.rules.book import Judgement, judge
from tenuto.rules.gemini import GeminiBody
from tenuto.rules.issued_tokens import content_digest
from tenuto.sim import providers
from tenuto.sim.dialects import ParsedRequest
from tenuto.sim.gemini import DIALECT
from tenuto.sim.providers import SimulatedProvider
from tenuto.sim.script import Fault, Turn
from tenuto.sim.tokens import SealedTokens, SeededRandom, TokenSealer

GEMINI, VERTEX = (providers.find(name, "gemini")[0] for name in ("gemini", "vertex"))
SEED = "seed"


def user(*parts: dict[str, Any] | str) -> dict[str, Any]:
    return {"role": "user", "parts": [{"text": part} if isinstance(part, str) else part for part in parts]}


def model_turn(*parts: dict[str, Any] | str) -> dict[str, Any]:
    return {**user(*parts), "role": "model"}


def weather(**more: Any) -> dict[str, Any]:
    """Return a tool with one function."""
    return {"functionDeclarations": [{"name": "weather", "description": "Weather", **more}]}


def results(parts: list[dict[str, Any]]) -> dict[str, Any]:
    """Return a result for every call among the parts."""
    calls = [part["functionCall"] for part in parts if "functionCall" in part]
    return user(
        *(
            {"functionResponse": {key: call[key] for key in ("name", "id") if key in call} | {"response": {"output": "rain"}}}
            for call in calls
        )
    )  # fmt: skip


def parse(
    body: dict[str, Any], model: str = "", provider: SimulatedProvider = GEMINI, *, stream: bool = False, alt: str = "sse",
    method: str = "",
) -> ParsedRequest:  # fmt: skip
    name = f"{provider.name}/{model}" if model else provider.name
    return ParsedRequest(
        provider=provider, target=providers.target(provider, model), model=model, requested_model=name, account="me",
        headers={"x-sim-alt": alt}, body=body, digest=content_digest(json.dumps(body), name), sealer=TokenSealer(SEED),
        stream=stream, method=method or ("streamGenerateContent" if stream else "generateContent"),
    )  # fmt: skip


def view(request: ParsedRequest) -> GeminiBody:
    tokens = SealedTokens(request.sealer, DIALECT.read_id, DIALECT.prefix_digests)
    row, traits = providers.imitated_row(request.provider), request.target.traits
    context = RequestContext(
        row=row, model=request.model, traits=traits, account="me", tokens=tokens, method=request.method
    )
    return GeminiBody(request.body, context)


def judgement(body: dict[str, Any], model: str = "", provider: SimulatedProvider = GEMINI) -> Judgement:
    return judge(view(parse(body, model, provider)))


def refused_rule(body: dict[str, Any], model: str = "", provider: SimulatedProvider = GEMINI) -> str:
    """Return the rule that refuses a body; empty if none does."""
    refusal = judgement(body, model, provider).refusal
    return refusal.rule.id if refusal else ""


def reply(request: ParsedRequest, turn: Turn) -> list[bytes | Fault]:
    return DIALECT.write(DIALECT.to_turn_request(view(request), request), turn, SeededRandom(SEED, request.digest))


def chunks(pieces: list[bytes | Fault], *, stream: bool) -> list[dict[str, Any]]:
    """Parse a reply: one body, or every chunk of a stream."""
    data = b"".join(piece for piece in pieces if isinstance(piece, bytes))
    if not stream:
        return [json.loads(data)]
    frames = data.split(b"\r\n\r\n")
    assert frames.pop() == b""
    assert all(frame.startswith(b"data: ") for frame in frames)
    return [json.loads(frame[6:]) for frame in frames]


def parts_of(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the parts of the first candidate of a reply, in order."""
    return [
        part
        for chunk in found
        for candidate in chunk.get("candidates", [])[:1]
        for part in candidate.get("content", {}).get("parts", [])
    ]
