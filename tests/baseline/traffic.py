"""Recorded responses as events, and recorded transcripts as requests for 14 targets."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from baseline import surface
from baseline.corpus import Exchange, conversations
from baseline.plain_form import Names, digest

__all__ = ["TARGETS", "case_key", "record"]

TARGETS: dict[str, dict[str, Any]] = {
    "anthropic/claude-sonnet-5-5": {"effort": "high", "max_tokens": 4000},
    "anthropic/claude-haiku-4-5": {"temperature": 0.5, "max_tokens": 1000},
    "vertex/claude-sonnet-4-6": {"effort": "low", "max_tokens": 9000},
    "openai/gpt-5.2": {"effort": "medium"},
    "azure/gpt-5.2": {"effort": "high", "store": True, "stream": True},
    "openai/gpt-4o": {"temperature": 0.2, "seed": 7},
    "openrouter/anthropic/claude-sonnet-4.5": {"effort": "high", "max_tokens": 4000},
    "deepseek/deepseek-v4-pro": {"max_tokens": 2000},
    "groq/llama-3.3-70b-versatile": {"stop": "END", "top_p": 0.9, "stream": True},
    "mistral/magistral-medium-latest": {"temperature": 0.7},
    "google/gemini-3.1-pro-preview": {"effort": "high", "stream": True},
    "vertex/gemini-2.5-pro": {"effort": "low", "temperature": 1.0},
    "ollama/qwen3": {"top_k": 20, "presence_penalty": 0.1},
    "xai/grok-4": {"max_tokens": 3000},
}
"""Models, each with parameters that its dialect must write."""
_FIRST = "Please help me with this."
_NEXT = "Please continue."
_RESULT = "The result of"


def case_key(case: str) -> str:
    """Return the name of a case in the recorded files."""
    return digest(case.encode(), 7)


def record(roots: Sequence[Path], jobs: int = 1) -> tuple[dict[str, list[str]], dict[str, list[str]], dict[str, str]]:
    """Return the lines of the events and of the requests by group, and the names of the cases by their keys."""
    groups = conversations(list(roots))
    parts = _spread(groups, jobs)
    events: dict[str, list[str]] = {}
    requests: dict[str, list[str]] = {}
    for part in parts:
        for group, event_line, request_line in part:
            events.setdefault(group, []).append(event_line)
            requests.setdefault(group, []).append(request_line)
    names = {f"{e.group} {case_key(e.case)}": e.case for group in groups for e in group}
    return _sorted(events), _sorted(requests), names


def _sorted(lines: dict[str, list[str]]) -> dict[str, list[str]]:
    return {group: sorted(lines[group]) for group in sorted(lines)}


def _spread(groups: list[list[Exchange]], jobs: int) -> Iterable[list[tuple[str, str, str]]]:
    if jobs <= 1:
        return [lines_of(groups)]
    import multiprocessing
    from concurrent.futures import ProcessPoolExecutor

    pieces = [groups[at : at + 40] for at in range(0, len(groups), 40)]
    with ProcessPoolExecutor(jobs, mp_context=multiprocessing.get_context("spawn")) as workers:
        return list(workers.map(lines_of, pieces))


def lines_of(groups: list[list[Exchange]]) -> list[tuple[str, str, str]]:
    """Return group, event line and request line of every exchange of some conversations."""
    names, lines = Names(), []
    for group in groups:
        steps = {exchange.about.get("step"): exchange for exchange in group}
        decoded: dict[str, surface.Decoded] = {}
        for exchange in group:
            result = _decode(exchange, decoded)
            messages = _messages([*_ancestors(exchange, steps), exchange], decoded)
            key = case_key(exchange.case)
            request_line = f"{key} {encode_all(names, messages)}"
            lines.append((exchange.group, f"{key} {describe_events(names, result)}", request_line))
    return lines


def _decode(exchange: Exchange, decoded: dict[str, surface.Decoded]) -> surface.Decoded:
    key = f"{exchange.group}/{exchange.case}"
    if key not in decoded:
        about = (exchange.dialect, exchange.provider, exchange.model, exchange.body)
        decoded[key] = surface.decode(*about, is_stream=exchange.is_stream, seed=exchange.case)
    return decoded[key]


def _ancestors(exchange: Exchange, steps: dict[Any, Exchange]) -> list[Exchange]:
    """Return the exchanges that led to this one, the first one first."""
    found: list[Exchange] = []
    parent = steps.get(exchange.about.get("parent_step", "none"))
    while parent is not None and parent is not exchange and parent not in found:
        found.insert(0, parent)
        parent = steps.get(parent.about.get("parent_step", "none"))
    return found


def _messages(exchanges: list[Exchange], decoded: dict[str, surface.Decoded]) -> list[Any]:
    """Build a transcript: each reply as it was decoded, results of its calls, and a fixed user message."""
    messages: list[Any] = []
    for exchange in exchanges:
        reply = surface.first_message(_decode(exchange, decoded).response)
        if reply is not None and reply.blocks:
            surface.follow_up(messages, reply, _RESULT, _NEXT)
    return messages


# --- one line ---------------------------------------------------------------------------------------------------------


def describe_events(names: Names, decoded: surface.Decoded) -> str:
    """Describe events: their number, digests of all but the last and of the response, the error, and kinds of losses."""
    last = decoded.events[-1:] if surface.final_response(decoded.events[-1]) is not None else []
    stream = decoded.events[: len(decoded.events) - len(last)] if decoded.events else []
    prose: list[str] = []
    plain = names.plain(stream, prose), names.plain(decoded.response, prose)
    losses = names.plain(list(surface.response_losses(decoded.response)))
    kinds = ",".join(sorted({loss["rule"] for loss in losses}))
    error = f"!{names.class_name(type(decoded.error))}" if decoded.error is not None else ""
    losses_text = f" {kinds} {digest(prose, 4)}" if kinds else ""
    return f"{len(decoded.events)} {digest(plain[0], 6)} {digest(plain[1], 6)}{error}{losses_text}"


def encode_all(names: Names, messages: list[Any]) -> str:
    """Describe the requests for all targets: a digest of each, one of its losses after a colon, and one of all prose."""
    if not messages:
        return "-"
    prose: list[str] = []
    found = [_encode(names, model, messages, prose) for model in TARGETS]
    return " ".join([*found, digest(prose, 4)] if prose else found)


def _encode(names: Names, model: str, messages: list[Any], prose: list[str]) -> str:
    try:
        encoded = surface.encode_for(model, _FIRST, messages, TARGETS[model])
    except surface.TenutoError as exc:
        return f"!{names.class_name(type(exc))}"
    losses = names.plain(list(encoded.losses), prose)
    written = digest(f"{_head(encoded.head)}\n".encode() + encoded.body, 5)
    return f"{written}:{digest(losses, 3)}" if losses else written


@cache
def _head_text(method: str, path: str, headers: tuple[tuple[str, str], ...]) -> str:
    return "\n".join((method, path, *(f"{name}: {value}" for name, value in headers)))


def _head(head: tuple[str, str, dict[str, str]]) -> str:
    method, path, headers = head
    return _head_text(method, path, tuple(sorted(headers.items())))
