"""Read a Gemini reply from its bytes, without the codec under test."""

from __future__ import annotations

import itertools
import json
import re
from typing import Any

from conformance.jsontext import Number, elements, load, members, plain, text_at
from conformance.reply_values import DONE, Answer, Call, Read, frames, merge

__all__ = ["FRAMING", "IMPLIED", "calls_in", "normal", "read"]

IMPLIED = {"role": ("model",)}
FRAMING: dict[str, str] = {}

_STEP = re.compile(r"\.?([^.\[\]]+)|\[(\d+)\]")


def normal(blocks: list[Any], *, streamed: bool) -> list[Any]:
    """Adjacent plain text parts are compared joined."""
    return _coalesced(blocks)


def read(data: bytes, *, streamed: bool) -> Read:
    """Return the content of the bytes. A stream is an SSE stream or one JSON array; a body is one chunk."""
    text = data.decode("utf-8-sig", "surrogatepass")
    if not streamed:
        return _chunks([text])
    return _chunks(
        elements(text) if text.lstrip()[:1] == "[" else [spelt for _, spelt in frames(data) if spelt.strip() != DONE]
    )


def calls_in(spelt: str) -> list[Call]:
    """Return the call that a part's text holds, if it is one."""
    exact = text_at(spelt, "functionCall") or text_at(spelt, "function_call")
    if not exact:
        return []
    call = members(exact)
    return [Call(load(call.get("id", "null")), load(call.get("name", "null")), call.get("args"))]


class _Candidate:
    def __init__(self) -> None:
        self.parts: list[dict[str, Any]] = []
        self.texts: list[str | None] = []
        self.fields: dict[str, Any] = {}
        self.stop: Any = None
        self.open: dict[str, Any] | None = None

    def take(self, candidate: dict[str, Any], spelt: str) -> None:
        content = candidate.get("content") or {}
        merge(self.fields, {k: v for k, v in candidate.items() if k not in ("content", "finishReason")})
        merge(self.fields, {k: v for k, v in content.items() if k != "parts"})
        self.stop = candidate.get("finishReason") or self.stop
        texts = elements(text_at(spelt, "content", "parts"))
        for part, exact in zip(content.get("parts") or [], texts, strict=True):
            self._part(part, members(text_at(exact, "functionCall")).get("args"))

    def _part(self, part: dict[str, Any], args: str | None) -> None:
        call = part.get("functionCall")
        if isinstance(call, dict) and (self.open is not None or call.get("willContinue")):
            self._piece(part, call)
            return
        self.parts.append(part)
        self.texts.append(args)

    def _piece(self, part: dict[str, Any], call: dict[str, Any]) -> None:
        if self.open is None or call.get("name"):
            other_fields = {k: v for k, v in call.items() if k not in ("partialArgs", "willContinue")}
            self.open = {**part, "functionCall": other_fields}
            self.parts.append(self.open)
            self.texts.append(None)
        else:
            merge(self.open, {k: v for k, v in part.items() if k != "functionCall"})
        whole = self.open["functionCall"]
        for piece in call.get("partialArgs") or []:
            whole["args"] = _set(whole.get("args") or {}, piece)
        if not call.get("willContinue"):
            self.open = None

    def answer(self) -> Answer:
        found = Answer(_coalesced(self.parts), [], self.stop, self.fields)
        for part, args in zip(self.parts, self.texts, strict=True):
            if isinstance(call := part.get("functionCall"), dict):
                found.calls.append(_call(call, args))
        return found


def _call(call: dict[str, Any], args: str | None) -> Call:
    if args is None and "args" in call:
        return Call(call.get("id"), call.get("name"), json.dumps(plain(call["args"])), composed=True)
    return Call(call.get("id"), call.get("name"), args)


def _set(args: dict[str, Any], piece: dict[str, Any]) -> dict[str, Any]:
    """Set one piece of streamed arguments at its path; pieces of one string are joined."""
    steps = [name or int(index) for name, index in _STEP.findall(piece["jsonPath"].removeprefix("$"))]
    value = next((piece[k] for k in ("stringValue", "numberValue", "boolValue") if k in piece), None)
    at: Any = args
    for step, following in itertools.pairwise(steps):
        at = _child(at, step, [] if isinstance(following, int) else {})
    last = steps[-1]
    old = at[last] if isinstance(last, int) and last < len(at) else at.get(last) if isinstance(at, dict) else None
    joined = old + value if isinstance(old, str) and isinstance(value, str) and not isinstance(value, Number) else value
    if isinstance(at, list) and last == len(at):
        at.append(joined)
    else:
        at[last] = joined
    return args


def _child(at: Any, step: Any, empty: Any) -> Any:
    if isinstance(at, list):
        while len(at) <= step:
            at.append(empty)
        return at[step]
    return at.setdefault(step, empty)


def _coalesced(parts: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Join adjacent text parts of the same kind without other fields, because a stream may divide text anywhere."""
    found: list[dict[str, Any]] = []
    for part in parts:
        last = found[-1] if found else None
        if last is not None and _bare(last) and _bare(part) and last.get("thought") == part.get("thought"):
            found[-1] = {**last, "text": last["text"] + part["text"]}
        else:
            found.append(part)
    return found


def _bare(part: dict[str, Any]) -> bool:
    return isinstance(part.get("text"), str) and not set(part) - {"text", "thought"}


def _chunks(texts: list[str]) -> Read:
    found = Read(ended=False)
    candidates: dict[str, _Candidate] = {}
    top: dict[str, Any] = {}
    for spelt in texts:
        chunk = load(spelt)
        if not isinstance(chunk, dict) or "error" in chunk:
            found.error = chunk.get("error") if isinstance(chunk, dict) else chunk
            continue
        merge(top, {k: v for k, v in chunk.items() if k not in ("candidates", "usageMetadata")})
        usage = chunk.get("usageMetadata")
        if isinstance(usage, dict) and ("totalTokenCount" in usage or not (found.usage or {}).get("totalTokenCount")):
            found.usage = usage
        for candidate, exact in zip(chunk.get("candidates") or [], elements(text_at(spelt, "candidates")), strict=True):
            candidates.setdefault(str(candidate.get("index") or 0), _Candidate()).take(candidate, exact)
    found.answers = [candidate.answer() for _, candidate in sorted(candidates.items())]
    found.named(top.pop("responseId", None), top.pop("modelVersion", None))
    found.fields = top
    found.ended = any(a.stop for a in found.answers) or bool((top.get("promptFeedback") or {}).get("blockReason"))
    return found
