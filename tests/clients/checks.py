"""What a client must return to the provider: tokens, tool call ids and results."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from clients.simulation import Exchange

Json = Any
_TOKENS = ("signature", "encrypted_content", "thoughtSignature", "thought_signature")
"""Fields with a token of the provider."""


class ScenarioError(Exception):
    """A client failed a scenario: the reason."""


def check_refusals(exchanges: list[Exchange], expected: frozenset[str]) -> None:
    """Raise `ScenarioError` for a refusal that is not expected."""
    for exchange in exchanges:
        refused = exchange.refused
        if refused is not None and refused["rule"] not in expected and str(exchange.status) not in expected:
            raise ScenarioError(f"refused: {exchange}")
        if refused is None and exchange.status != 200:
            raise ScenarioError(f"failed: {exchange}")


def check_replay(exchanges: list[Exchange]) -> None:
    """Check that the last request contains all tokens and answered tool calls of the replies before it."""
    *earlier, last = exchanges
    request = last.messages
    texts = set(_strings(request))
    joined = "\n".join(texts)
    issued: list[str] = []
    for exchange in earlier:
        frames = exchange.frames
        tokens = [text for frame in frames for key, text in _fields(frame) if key in _TOKENS and text]
        missing = [token for token in tokens if token not in texts]
        if missing:
            raise ScenarioError(f"{len(missing)} of {len(tokens)} tokens are not sent back")
        reasoning = "".join(text for frame in frames for key, text in _fields(frame) if key == "reasoning_content")
        if reasoning not in joined:
            raise ScenarioError("the reasoning_content is not sent back")
        issued += _call_ids(frames)
    calls, results = _call_ids(request), _result_ids(request)
    if calls != issued:
        raise ScenarioError(f"tool calls {issued} are sent back as {calls}")
    if sorted(results) != sorted(issued):
        raise ScenarioError(f"tool calls {issued} have the results {results}")


def check_issued(exchanges: list[Exchange], calls: int) -> None:
    """Check that the replies contain reasoning and a number of tool calls, which can be lost."""
    issued = sum(len(_call_ids(exchange.frames)) for exchange in exchanges)
    if issued != calls:
        raise ScenarioError(f"the replies contain {issued} tool calls instead of {calls}")
    if not any(key in (*_TOKENS, "reasoning_content") and text for e in exchanges for key, text in _fields(e.frames)):
        raise ScenarioError("the replies contain no tokens: the client did not ask for reasoning")


def check_compaction(exchanges: list[Exchange], last: Exchange, summary: str) -> None:
    """Check that a request contains the summary, or the provider's, and no longer the calls of the first reply."""
    remaining = set(_call_ids(exchanges[0].frames)) & set(_call_ids(last.messages))
    if remaining:
        raise ScenarioError(f"the request after the compaction still contains {remaining}")
    items = [item["encrypted_content"] for item in last.messages if item.get("type") == "compaction"]
    issued = {text for exchange in exchanges for key, text in _fields(exchange.frames) if key in _TOKENS}
    if not issued.issuperset(items):
        raise ScenarioError("the encrypted summary was changed")
    if not items and not any(summary in text for text in _strings(last.messages)):
        raise ScenarioError("the request after the compaction does not contain the summary")


def _objects(value: Json) -> Iterator[dict[str, Json]]:
    if isinstance(value, dict):
        yield value
        for item in value.values():
            yield from _objects(item)
    elif isinstance(value, list):
        for item in value:
            yield from _objects(item)


def _fields(value: Json) -> Iterator[tuple[str, str]]:
    """Yield the text fields in a JSON value, with their names."""
    for found in _objects(value):
        yield from ((key, text) for key, text in found.items() if isinstance(text, str))


def _strings(value: Json) -> Iterator[str]:
    yield from (text for _, text in _fields(value))


def _call_ids(value: Json) -> list[str]:
    """Return the ids of tool calls, in order; for Gemini calls without an id their names."""
    ids: list[str] = []
    for found in _objects(value):
        match found:
            case {"functionCall": {"name": str(name)} as call}:
                ids.append(call.get("id", name))
            case (
                {"type": "tool_use", "id": str(id)}
                | {"type": "function_call" | "custom_tool_call", "call_id": str(id)}
                | {"type": "function", "id": str(id), "function": {}}
            ) if id not in ids:  # the last event of a Responses stream repeats the calls
                ids.append(id)
    return ids


def _result_ids(value: Json) -> list[str]:
    """Return the ids of answered tool calls, in order; for Gemini results without an id their names."""
    ids: list[str] = []
    for found in _objects(value):
        match found:
            case {"functionResponse": {"name": str(name)} as result}:
                ids.append(result.get("id", name))
            case (
                {"type": "tool_result", "tool_use_id": str(id)}
                | {"type": "function_call_output" | "custom_tool_call_output", "call_id": str(id)}
                | {"role": "tool", "tool_call_id": str(id)}
            ):
                ids.append(id)
    return ids
