"""Plays one turn in any style, without a server: a question in the dialect, judged, read and answered."""

from __future__ import annotations

import json
from typing import Any

from tenuto.rules import Judgement, RequestBody, RequestContext, judge, open_body, refusal
from tenuto.rules.issued_tokens import content_digest
from tenuto.sim import providers
from tenuto.sim.dialects import ParsedRequest, TurnRequest, load_dialect
from tenuto.sim.providers import find
from tenuto.sim.script import CallTool, Cite, Fault, RunCode, Say, Search, SearchResult, SendImage, Think, Turn
from tenuto.sim.tokens import SealedTokens, SeededRandom, TokenSealer

SEED = "tenuto"
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
PROSE = "Bergen lies on the west coast; it rains there more often than not, and people own more than one umbrella. " * 3
FOUND = (
    SearchResult("https://example.org/a", "A page", "Some words on it"),
    SearchResult("https://example.org/b", "Another", "Other words"),
)
TURNS: dict[str, Turn] = {
    "text": (Say(PROSE),),
    "thought and text": (Think(PROSE), Say("It rains.")),
    "two thoughts": (Think(PROSE), Think("Again."), Say("It rains.")),
    "hidden thought": (Think("Nothing to see", redacted=True), Say("It rains.")),
    "call": (CallTool("weather", {"city": "Oslo"}),),
    "thought and call": (Think(PROSE), CallTool("weather", {"city": "Oslo"})),
    "text between": (Think("Hm."), Say("Let me look."), CallTool("weather", {"city": "Ærø"})),
    "parallel calls": (Think("Both."), CallTool("weather", {"city": "Oslo"}), CallTool("weather", {"city": "Bergen"})),
    "call without arguments": (CallTool("weather"),),
    "deep arguments": (CallTool("weather", {"city": "x", "more": {"list": [1, 2.5, None, True, "é \U0001f600"], "empty": {}}}),),
    "search": (Search("weather in Oslo", FOUND), Say("Rain.", cites=(Cite("https://example.org/a", "A page", "Some words"),))),
    "code": (RunCode("print(6 * 7)", "42\n"), Say("It is 42.")),
    "picture": (Say("Here:"), SendImage()),
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


def ask(dialect: str, named: str, body: dict[str, Any], *, stream: bool = False, account: str = "") -> ParsedRequest:
    """Make the request that a server would."""
    style, model = find(named, dialect)
    verb = ("streamGenerateContent" if stream else "generateContent") if dialect == "gemini" else ""
    plain = {name: value for name, value in body.items() if name not in ("stream", "stream_options")}
    return ParsedRequest(
        provider=style, target=providers.target(style, model), model=model, requested_model=named, account=account, headers={"x-sim-alt": "sse"}, body=body, method=verb,
        digest=content_digest(json.dumps(plain), named, account), stream=stream,
    )  # fmt: skip


def rule_view(request: ParsedRequest) -> RequestBody:
    """Return the view of a request with the tokens that the simulator issued."""
    own = load_dialect(request.provider.dialect)
    context = RequestContext(
        row=providers.imitated_row(request.provider), model=request.model, traits=request.target.traits,
        headers=request.headers, account=request.account, method=request.method,
        tokens=SealedTokens(TokenSealer(SEED), own.read_id, own.prefix_digests), size=len(json.dumps(request.body)),
    )  # fmt: skip
    return open_body(request.provider.dialect, request.body, context)


def judged(request: ParsedRequest) -> Judgement:
    """Apply the rules to a request."""
    return judge(rule_view(request))


def turn_request(request: ParsedRequest) -> TurnRequest:
    """Read a request that no rule refuses."""
    body = rule_view(request)
    refused = refusal(body)
    assert refused is None, (refused.rule.id, refused.pointer, refused.message)
    return load_dialect(request.provider.dialect).to_turn_request(body, request)


def write_turn(request: ParsedRequest, turn: Turn, seed: str = SEED) -> list[bytes | Fault]:
    """Write a turn as the reply to a request that no rule refuses."""
    dialect = load_dialect(request.provider.dialect)
    return dialect.write(turn_request(request), turn, SeededRandom(seed, request.digest))


def play_pieces(
    dialect: str, named: str, turn: Turn, *, stream: bool, body: dict[str, Any] | None = None
) -> list[bytes | Fault]:
    """Send a request; return the pieces of the reply."""
    return write_turn(ask(dialect, named, body or question(dialect, named, stream=stream), stream=stream), turn)


def play(dialect: str, named: str, turn: Turn, *, stream: bool, body: dict[str, Any] | None = None) -> bytes:
    """Send a request; return the bytes of the reply."""
    pieces = play_pieces(dialect, named, turn, stream=stream, body=body)
    return b"".join(piece for piece in pieces if isinstance(piece, bytes))
